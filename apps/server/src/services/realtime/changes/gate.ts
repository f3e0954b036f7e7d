// Asks Postgres who may see which changed rows: once for a batch of rows and all callers with the same role, each under
// its own claims. What cannot be judged is not seen.
import { Refusal } from '#src/kernel/errors.ts'
import { identifier } from '#src/kernel/postgres/sql.ts'
import { DatabaseError } from '#src/kernel/postgres/wire/database-error.ts'
import type { Answer } from '#src/kernel/postgres/wire/unit.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type GatePools, waitMs } from '#src/tenancy/gate-pools.ts'

/** A caller as policies see it, and the rows it asks about. Equal lists of rows are best the same list. */
export interface Asked {
  readonly claims: string
  readonly userId: string
  /** As Postgres writes them: `(1,"two",)`; or all in JSON, where the table had other columns then. */
  readonly rows: readonly string[]
}

/** For each row `1` or `0`, `x` where its policy failed, `-` where nobody was free to ask. */
export type Verdict = string

export interface Question {
  readonly relid: string
  readonly role: 'anon' | 'authenticated'
  /** Whether rows are seen, or added; or whether the rows are seen that have the same keys now. */
  readonly command: keyof typeof commands
  /** What realtime.topic() says. */
  readonly topic?: string
}

const commands = { select: 'r', insert: 'a', selectByKey: 'k' } as const

export type Gate = ReturnType<typeof createGate>

/** What a pass may take, and one caller alone; many rows take longer, also where nothing is wrong. */
const passMs = (rows: number) => 1000 + rows / 10
const aloneMs = (rows: number) => 250 + rows
/** Callers in one question: with few rows more of them, since every question has its price. */
const chunkSizeFor = (rows: number) => (rows <= 4 ? 250 : 100)
/** Of callers whose policies failed on a batch, how many of their rows are looked at one by one. */
const mostSingles = 1000
const canceled = '57014'
/** A caller whose policies took too long is not asked about again for so long. */
const restMs = 30_000
const mostResting = 10_000

/** A policy can refuse to be ended; then nobody waits for it any longer. */
const unansweredMs = 1500
const mostUnanswered = 2

class Unanswered extends Error {}

const judge = `select place, verdict from platform.judge(
  $1::oid, $2::text, $3::"char", $4::text[], $5::text[], $6::text[], $7::integer[], $8::text)`

/** `atOnce` questions of one project are asked side by side. */
export function createGate(pools: GatePools, atOnce = 4) {
  const rests = createRests()
  const run = withinTime(pools)

  async function ask(tenant: Tenant, question: Question, asked: readonly Asked[], timeoutMs: number) {
    const sets = new Map<readonly string[], number>()
    for (const { rows } of asked) if (!sets.has(rows)) sets.set(rows, sets.size + 1)
    const { relid, role, command, topic = '' } = question
    const { rows } = await run(
      tenant,
      judge,
      [
        relid,
        role,
        commands[command],
        textArray(asked.map(({ claims }) => claims)),
        textArray(asked.map(({ userId }) => userId)),
        textArray([...sets.keys()].map(rowArray)),
        `{${asked.map(each => sets.get(each.rows)).join(',')}}`,
        topic,
      ],
      timeoutMs,
    )
    // Without rows nobody of the role may use the table.
    const verdicts = asked.map(each => '0'.repeat(each.rows.length))
    for (const [place, verdict] of rows) {
      const at = Number(place!.toString('latin1')) - 1
      verdicts[at] = verdict?.toString('latin1') ?? unknown(asked[at]!)
    }
    return verdicts
  }

  /** Who takes too long is found by asking about each alone. */
  async function askEach(tenant: Tenant, question: Question, asked: readonly Asked[]): Promise<Verdict[]> {
    const verdicts: Verdict[] = []
    let unanswered = 0
    for (const each of asked) {
      // Each of those keeps a connection for a while: no more of them.
      if (unanswered >= mostUnanswered) rests.begin(tenant, question, each)
      const verdict =
        unanswered < mostUnanswered &&
        (await ask(tenant, question, [each], aloneMs(each.rows.length)).then(
          ([found]) => found,
          error => {
            if (isCanceled(error) || error instanceof Unanswered) rests.begin(tenant, question, each)
            if (error instanceof Unanswered) unanswered++
          },
        ))
      verdicts.push(verdict || unknown(each))
    }
    return verdicts
  }

  async function askChunk(tenant: Tenant, question: Question, asked: readonly Asked[]): Promise<Verdict[]> {
    try {
      const rows = asked.reduce((sum, each) => sum + each.rows.length, 0)
      return await ask(tenant, question, asked, passMs(rows))
    } catch (error) {
      if (asked.length > 1 && (error instanceof DatabaseError || error instanceof Unanswered))
        return askEach(tenant, question, asked)
      if (error instanceof Unanswered) rests.begin(tenant, question, asked[0]!)
      if (error instanceof DatabaseError || error instanceof Unanswered) return asked.map(unknown)
      if (error instanceof Refusal) return asked.map(({ rows }) => '-'.repeat(rows.length))
      throw error
    }
  }

  async function inChunks(tenant: Tenant, question: Question, asked: readonly Asked[]): Promise<Verdict[]> {
    const chunkSize = chunkSizeFor(asked.reduce((most, { rows }) => Math.max(most, rows.length), 0))
    const found: Verdict[][] = []
    let next = 0
    const takeTurns = async () => {
      for (let at = next++; at * chunkSize < asked.length; at = next++)
        found[at] = await askChunk(tenant, question, asked.slice(at * chunkSize, (at + 1) * chunkSize))
    }
    await Promise.all(Array.from({ length: atOnce }, takeTurns))
    return found.flat()
  }

  /** One row that makes a policy fail says nothing about the others. */
  async function askAgain(tenant: Tenant, question: Question, asked: readonly Asked[], verdicts: Verdict[]) {
    const singles: { at: number; row: number; asked: Asked }[] = []
    for (const [at, verdict] of verdicts.entries()) {
      const { rows, ...caller } = asked[at]!
      if (rows.length < 2 || verdict !== unknown(asked[at]!)) continue
      if (singles.length + rows.length > mostSingles || rests.has(tenant, question, asked[at]!)) continue
      for (const [row, text] of rows.entries()) singles.push({ at, row, asked: { ...caller, rows: [text] } })
    }
    if (singles.length === 0) return
    const found = await inChunks(
      tenant,
      question,
      singles.map(single => single.asked),
    )
    for (const [index, { at, row }] of singles.entries())
      verdicts[at] = verdicts[at]!.slice(0, row) + found[index] + verdicts[at]!.slice(row + 1)
  }

  return {
    /** One verdict for each who is asked about, in their order. */
    async judge(tenant: Tenant, question: Question, asked: readonly Asked[]): Promise<Verdict[]> {
      const verdicts = asked.map(unknown)
      const awake = asked.flatMap((each, at) => (rests.has(tenant, question, each) ? [] : at))
      const found = await inChunks(
        tenant,
        question,
        awake.map(at => asked[at]!),
      )
      for (const [index, at] of awake.entries()) verdicts[at] = found[index]!
      await askAgain(tenant, question, asked, verdicts)
      return verdicts
    },

    /** For each row, whether each of the conditions holds; undefined where one of them cannot be asked. */
    async match(
      tenant: Tenant,
      relation: string,
      alias: string,
      conditions: readonly string[],
      rows: readonly string[],
    ): Promise<string[] | undefined> {
      const all = conditions.map(each => `case when ${each} then '1' else '0' end`).join(' || ')
      const source = areJson(rows)
        ? `pg_catalog.json_populate_recordset(null::${relation}, $1::json)`
        : `pg_catalog.unnest($1::${relation}[])`
      const found = await run(
        tenant,
        `select ${all} from ${source} as ${alias}`,
        [rowArray(rows)],
        passMs(rows.length),
        'authenticated',
      ).catch(notAsked)
      return found?.rows.map(([line]) => line!.toString('latin1'))
    },

    /** Some columns of a row, in JSON; undefined where the row cannot be read. */
    async jsonOf(
      tenant: Tenant,
      table: { readonly schema: string; readonly name: string },
      line: string,
      columns: readonly string[],
    ): Promise<string | undefined> {
      if (columns.length === 0) return '{}'
      const alias = identifier(table.name)
      const named = columns.map(column => `${alias}.${identifier(column)}`).join(', ')
      const found = await run(
        tenant,
        `select pg_catalog.row_to_json(k.*) from pg_catalog.unnest($1::${identifier(table.schema)}.${alias}[]) as ${alias}, lateral (select ${named}) k`,
        [textArray([line])],
        passMs(1),
        'authenticated',
      ).catch(notAsked)
      return found?.rows[0]?.[0]?.toString('utf8')
    },
  }
}

/** Ends a while after its time is over, whatever Postgres says. */
const withinTime =
  (pools: GatePools) =>
  (...[tenant, sql, values, timeoutMs, role]: Parameters<GatePools['run']>): Promise<Answer> => {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const late = setTimeout(() => reject(new Unanswered()), timeoutMs + waitMs + unansweredMs)
    pools.run(tenant, sql, values, timeoutMs, role).then(resolve, reject)
    return promise.finally(() => clearTimeout(late))
  }

/** Callers who are not asked about for a while. */
function createRests() {
  const until = new Map<string, number>()
  const keyOf = ({ id }: Tenant, { relid, role }: Question, { claims }: Asked) =>
    `${id}:${relid}:${role}:${claims}`
  return {
    begin(tenant: Tenant, question: Question, asked: Asked): void {
      if (until.size >= mostResting) until.clear()
      until.set(keyOf(tenant, question, asked), performance.now() + restMs)
    },
    has(tenant: Tenant, question: Question, asked: Asked): boolean {
      if (until.size === 0) return false
      const key = keyOf(tenant, question, asked)
      if ((until.get(key) ?? 0) < performance.now()) until.delete(key)
      return until.has(key)
    },
  }
}

function notAsked(error: unknown): undefined {
  if (!(error instanceof DatabaseError || error instanceof Refusal || error instanceof Unanswered))
    throw error
  return
}

const unknown = ({ rows }: Asked): Verdict => 'x'.repeat(rows.length)
export const isCanceled = (error: unknown) => error instanceof DatabaseError && error.code === canceled
const areJson = (rows: readonly string[]) => rows[0]?.startsWith('{') === true
const rowArray = (rows: readonly string[]) => (areJson(rows) ? `[${rows.join(',')}]` : textArray(rows))
const textArray = (texts: readonly string[]) =>
  `{${texts.map(text => `"${text.replace(/["\\]/g, '\\$&')}"`).join(',')}}`
