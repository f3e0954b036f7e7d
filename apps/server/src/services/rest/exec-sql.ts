// Runs SQL from the project's own servers, as the project's owner and on a separate connection.
import { bytesIn, sourceOf } from '#src/kernel/byte-source.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { readBody } from '#src/kernel/http/body.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { OwnSession } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { splitStatements } from '#src/kernel/postgres/statements.ts'
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
/** A timeout, and a search path with the extensions. The SQL may change both for itself. */
const settings = `set statement_timeout = ${timeoutMs}; set search_path = "$user", public, extensions`

export async function execSql(databases: Databases, { tenant }: Caller, raw: RawRequest): Promise<RawReply> {
  const sql = await inSlices(sqlIn(await readBody(raw, maxBodyBytes)))
  if (sql === undefined || sql.includes('\0'))
    throw new Refusal('invalid_request', 'body.sql must be a text of SQL statements')
  const statements = await inSlices(splitStatements(sql))
  if (statements.some(({ copies }) => copies !== undefined)) throw copyRefusal()
  const { text, lastTag } = await inSlices(withAuthTriggerCalls(sql, statements))
  // As the owner: this route is for SQL that policies and the three roles do not allow.
  const { tag, chunks } = await databases
    .asOwner(tenant, session => answerOf(session, text), {
      signal: raw.signal,
      // The timeout is per statement. SQL that mentions the setting may have set a longer one.
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
  const { kind, rows } = yield* scanJson(json, { anyElement: true })
  const value = kind === 'object' ? rows.valueOf('sql') : undefined
  return value && (yield* stringIn(json, value))
}

async function answerOf(session: OwnSession, sql: string): Promise<{ tag: string; chunks: Buffer[] }> {
  await session.script(settings)
  const rows = new JsonRows()
  const tag = await session.results(sql, rows)
  if (await leavesTransactionOpen(session)) throwOpenTransaction()
  return { tag, chunks: await rows.finish() }
}

const copyRefusal = () =>
  new Refusal('invalid_request', 'COPY FROM STDIN and TO STDOUT are not possible here', {
    hint: 'Read and write the rows of the table itself, as text/csv for example.',
  })

function throwOpenTransaction(): never {
  throw new Refusal(
    'invalid_request',
    'The statements leave a transaction open, and nothing of it was kept',
    {
      hint: 'End it with commit, or leave out begin: all statements of a request are one transaction anyway.',
    },
  )
}

/** An error of Postgres is a 4xx, since the statement comes from the owner. */
function fail(error: unknown, signal: AbortSignal): never {
  if (signal.aborted) throw new Refusal('client_closed_request', 'The client closed the connection')
  throw error instanceof DatabaseError ? refusalFromOwnSql(error) : error
}
