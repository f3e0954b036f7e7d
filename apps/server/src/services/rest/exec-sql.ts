// SQL of the project's own servers, run as the project's owner on a connection of its own.
import { bytesIn, sourceOf } from '#src/kernel/byte-source.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { OwnSession } from '#src/kernel/postgres/database.ts'
import { splitStatements } from '#src/kernel/postgres/statements.ts'
import { fromDriver } from '#src/kernel/postgres/wire/database-error.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { refusalFromOwnSql } from '#src/planes/data/database-refusal.ts'
import { withAuthTriggerCalls } from '#src/tenancy/auth-trigger-statements.ts'
import type { Caller, Databases } from '#src/tenancy/databases.ts'
import { leavesTransactionOpen } from '#src/tenancy/open-transaction.ts'
import { JsonRows } from './json-rows.ts'
import { scanJson } from './json-scan.ts'
import { stringIn } from './json-string.ts'
import { jsonIn, maxBodyBytes } from './payload.ts'

const timeoutMs = 300_000
/** Nobody waits for longer, and extensions are found by name; the SQL may set both otherwise for itself. */
const settings = `set statement_timeout = ${timeoutMs}; set search_path = "$user", public, extensions`

export async function execSql(databases: Databases, { tenant }: Caller, raw: RawRequest): Promise<RawReply> {
  const sql = await inSlices(sqlIn(await readBody(raw, maxBodyBytes)))
  if (sql === undefined || sql.includes('\0'))
    throw new Refusal('invalid_request', 'body.sql must be a text of SQL statements')
  const statements = await inSlices(splitStatements(sql))
  if (statements.some(({ copies }) => copies !== undefined)) throw copying()
  const { text, lastTag } = await inSlices(withAuthTriggerCalls(sql, statements))
  // As the owner: this route is there for what policies and the three roles do not allow.
  const { tag, chunks } = await databases
    .asOwner(tenant, session => answerOf(session, text), {
      signal: raw.signal,
      // Each statement has this time. SQL that mentions the setting may have given itself more.
      timeoutMs: /statement_timeout/i.test(sql) ? undefined : timeoutMs * statements.length,
    })
    .catch(error => fail(error, raw.signal))
  return {
    status: 200,
    headers: {
      'content-type': 'application/json; charset=utf-8',
      'content-length': String(bytesIn(chunks)),
      'x-command-tag': lastTag ?? tag,
    },
    body: chunks.length === 1 ? chunks[0]! : sourceOf(chunks),
  }
}

function* sqlIn(body: Buffer): Sliced<string | undefined> {
  const json = jsonIn(body)
  const { rows } = yield* scanJson(json, { anyElement: true })
  const value = rows.valueOf('sql')
  return value && (yield* stringIn(json, value))
}

async function answerOf(session: OwnSession, sql: string): Promise<{ tag: string; chunks: Buffer[] }> {
  await session.script(settings)
  const rows = new JsonRows()
  const tag = await session.results(sql, rows)
  if (await leavesTransactionOpen(session)) inTransaction()
  return { tag, chunks: await rows.finish() }
}

const copying = () =>
  new Refusal('invalid_request', 'COPY FROM STDIN and TO STDOUT are not possible here', {
    hint: 'Read and write the rows of the table itself, as text/csv for example.',
  })

function inTransaction(): never {
  throw new Refusal(
    'invalid_request',
    'The statements leave a transaction open, and nothing of it was kept',
    {
      hint: 'End it with commit, or leave out begin: all statements of a request are one transaction anyway.',
    },
  )
}

/** Postgres' error in the words of the row API, always as a 4xx: the statement is the owner's own. */
function fail(error: unknown, signal: AbortSignal): never {
  if (signal.aborted) throw new Refusal('client_closed_request', 'The client closed the connection')
  const raised = error instanceof Refusal ? undefined : fromDriver(error)
  throw raised ? refusalFromOwnSql(raised) : error
}
