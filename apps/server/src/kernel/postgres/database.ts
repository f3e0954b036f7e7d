// `pg` for everything off the hot path: the control database, provisioning, migrations, owners' sessions.
import { hash } from 'node:crypto'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  Client,
  type ClientConfig,
  Pool,
  type PoolClient,
  type QueryConfig,
  type Submittable,
  types,
} from 'pg'
import { Refusal } from '#src/kernel/errors.ts'
import { type Breakable, cut, type Deadline, inTime } from './deadline.ts'
import { isServerError, makePassable } from './error-text.ts'
import { readFairly } from './fair-reading.ts'
import { isLockTableFull, Patience, pauseMs, whileLockTableIsFull } from './full-lock-table.ts'
import { type ResultReader, ScriptQuery } from './script-query.ts'
import type { ServerAddress } from './server-address.ts'
import { compile, type SqlFragment } from './sql.ts'
import { isUnavailable, unavailable } from './unavailable.ts'
import { requestCancel } from './wire/handshake.ts'

export interface Session {
  /** One statement, whatever its text: so are `row` and `run`. */
  rows<T>(statement: SqlFragment): Promise<T[]>
  /** The only row, or undefined. */
  row<T>(statement: SqlFragment): Promise<T | undefined>
  /** How many rows it touched. */
  run(statement: SqlFragment): Promise<number>
  /** Several statements without parameters, as one implicit transaction. */
  script(text: string): Promise<void>
  /** Like `run`, for what is run over and over: planned once for each connection. */
  repeat(statement: SqlFragment): Promise<number>
  /** The same with rows. */
  repeatRows<T>(statement: SqlFragment): Promise<T[]>
}

/** On a connection of its own. */
export interface OwnSession extends Session {
  /** Several statements; the reader gets what they answer. Resolves to what the last is called: `SELECT 3`. */
  results(text: string, reader?: ResultReader): Promise<string>
}

export interface Database extends Session {
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  /** Lets what runs end, for half a second. */
  close(): Promise<void>
}

export interface PooledDatabase extends Database {
  /** How many connections it may open from now on. */
  resize(max: number): void
}

/** What every session of the platform's superuser starts with: a tenant's objects can never be picked up by name. */
export const guardedSettings: Record<string, string> = {
  search_path: 'pg_catalog',
  role: 'none',
  local_preload_libraries: '',
}

const timestamptz = 1184
const parsers: NonNullable<ClientConfig['types']> = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    oid === timestamptz
      ? (text: string) => new Date(text).toISOString()
      : types.getTypeParser(oid, format as 'text')) as typeof types.getTypeParser,
}

function clientConfig(
  { host, port, user, password, tls }: ServerAddress,
  database: string,
  settings: Record<string, string>,
): ClientConfig {
  const options = Object.entries(settings).map(
    ([name, value]) => `-c ${name}=${value.replace(/([\\ ])/g, '\\$1')}`,
  )
  return {
    host,
    port,
    user,
    password,
    database,
    application_name: 'plinth',
    types: parsers,
    connectionTimeoutMillis: 10_000,
    ...(options.length > 0 && { options: options.join(' ') }),
    ...(tls && { ssl: tls }),
  }
}

const closePatienceMs = 500
/** How long the server may take to end a session in good order, and to end a statement that was cancelled. */
const silenceMs = { atEnd: 5000, afterCancel: 1000 }
interface Listened {
  connection: {
    stream: Socket
    on(event: 'commandComplete', heard: (message: { text: string }) => void): void
    on(event: 'message', heard: () => void): void
  }
}
/** What one statement may answer with on a connection of its own: tenants choose what their statements answer. */
export const maxAnswerBytes = 64 * 1024 * 1024
/** The driver decodes a row in one go. */
const maxRowBytes = 16 * 1024 * 1024

interface PooledOptions extends Deadline {
  max?: number
  /** Runs before each transaction. */
  beforeUse?: string
  /** Its transactions do nothing but what they roll back: one that met a full lock table is run again. */
  isRepeatable?: boolean
  maxAnswerBytes?: number
}

export function openDatabase(
  address: ServerAddress,
  database: string,
  settings: Record<string, string>,
  onError: (error: Error) => void,
  options: PooledOptions = {},
): PooledDatabase {
  const { max = 10, beforeUse = '', isRepeatable, maxAnswerBytes = Number.POSITIVE_INFINITY } = options
  const deadline: Deadline = options
  const pool = new Pool({ ...clientConfig(address, database, settings), max, idleTimeoutMillis: 30_000 })
  // An idle connection that breaks is replaced on next use; without a listener it would end the process.
  pool.on('error', onError)
  const clients = new Set<PoolClient>()
  pool.on('connect', client => {
    clients.add(client)
    client.on('error', () => {}) // one in use that breaks fails its query; the pool listens to idle ones only
  })
  pool.on('remove', client => clients.delete(client))
  return {
    ...session(pool, ask => whileLockTableIsFull(ask).catch(unlessFull)),
    transaction(work) {
      const attempt = async () => {
        const client = await whileLockTableIsFull(() => pool.connect())
        const guard: Ask = ask => inTime(client, deadline, ask)
        const run = (text: string) => guard(() => client.query(text))
        const ask = firstAgain(guard, async () => {
          await run('rollback')
          await run(`${beforeUse} begin`)
        })
        try {
          await run(`${beforeUse} begin`)
          const result = await work(
            maxAnswerBytes === Number.POSITIVE_INFINITY
              ? session(client, ask)
              : boundedSession(client, ask, maxAnswerBytes),
          )
          await run('commit')
          client.release()
          return result
        } catch (error) {
          const isBroken = await run('rollback').then(
            () => false,
            () => true,
          )
          client.release(isBroken)
          throw error
        }
      }
      return (isRepeatable ? whileLockTableIsFull(attempt) : attempt()).catch(unlessFull)
    },
    resize(size) {
      pool.options.max = size
    },
    async close() {
      const cut = setTimeout(() => {
        for (const client of clients) (client as unknown as Breakable).connection.stream.destroy()
      }, closePatienceMs)
      await pool.end().catch(() => {})
      clearTimeout(cut)
    },
  }
}

/** The first statement of a transaction finds nothing done before it, so the transaction can be begun again. */
function firstAgain(ask: Ask, beginAgain: () => Promise<void>): Ask {
  let isFirst = true
  return async work => {
    if (!isFirst) return ask(work)
    isFirst = false
    const patience = new Patience()
    for (;;)
      try {
        return await ask(work)
      } catch (error) {
        if (!isLockTableFull(error) || !patience.hasLeft()) throw error
        await sleep(pauseMs())
        await beginAgain()
      }
  }
}

interface ClientOptions extends Deadline {
  /** What runs is cancelled when it aborts. */
  signal?: AbortSignal | undefined
}

/**
 * One connection for one piece of work, closed whatever happens. A server that does not react is not waited for: a
 * second after the signal, or some seconds after the end of the work, the connection is cut.
 */
export async function withClient<T>(
  address: ServerAddress,
  database: string,
  settings: Record<string, string>,
  work: (session: OwnSession) => Promise<T>,
  { signal, ...deadline }: ClientOptions = {},
): Promise<T> {
  const client = await connected(address, database, settings)
  let cutting: NodeJS.Timeout | undefined
  const cutAfter = (ms: number) => {
    cutting ??= setTimeout(() => cut(client, deadline), ms)
  }
  const cancel = () => {
    void requestCancel(address, backendOf(client)).catch(() => {})
    cutAfter(silenceMs.afterCancel)
  }
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    signal?.throwIfAborted()
    return await work(boundedSession(client, ask => inTime(client, deadline, ask)))
  } finally {
    signal?.removeEventListener('abort', cancel)
    cutAfter(silenceMs.atEnd)
    await client.end().catch(() => {})
    clearTimeout(cutting)
  }
}

async function connected(
  address: ServerAddress,
  database: string,
  settings: Record<string, string>,
): Promise<Client> {
  const connect = async () => {
    const client = new Client({ ...clientConfig(address, database, settings), keepAlive: true })
    client.on('error', () => {}) // the query in flight rejects; there is nothing to add
    await client.connect()
    return client
  }
  return whileLockTableIsFull(connect).catch(told)
}

/** The driver keeps these to itself. */
function backendOf(client: Client): { processId: number; secretKey: Buffer } {
  const { processID, secretKey } = client as unknown as { processID: number; secretKey: number }
  const key = Buffer.alloc(4)
  key.writeInt32BE(secretKey | 0)
  return { processId: processID, secretKey: key }
}

/** A connection that stays open, with what belongs to its session, until it is closed or breaks. */
export async function openSession(
  address: ServerAddress,
  database: string,
  deadline: Deadline = {},
): Promise<{ session: Session; close(): Promise<void> }> {
  const client = await connected(address, database, guardedSettings)
  return { session: session(client, ask => inTime(client, deadline, ask)), close: () => client.end() }
}

interface Tally {
  received: number
  /** Since the last message was whole. */
  ofMessage: number
  /** Why the connection was cut. */
  refusal: Refusal | undefined
  /** Of the last statement, in full: the driver tells its first word. */
  tag: string
}
const tallies = new WeakMap<object, Tally>()

/** Counts what a connection receives, and cuts it when that is too much. */
function tallyOf(client: Client | PoolClient, max: number): Tally {
  const known = tallies.get(client)
  if (known) return known
  const tally: Tally = { received: 0, ofMessage: 0, refusal: undefined, tag: '' }
  const { connection } = client as unknown as Listened
  const { stream } = connection
  connection.on('commandComplete', ({ text }) => {
    tally.tag = text
  })
  connection.on('message', () => {
    tally.ofMessage = 0
  })
  stream.on('data', (chunk: Buffer) => {
    tally.received += chunk.length
    tally.ofMessage += chunk.length
    if (tally.refusal) return
    if (tally.received > max) tally.refusal = tooMuch(max)
    else if (tally.ofMessage > maxRowBytes) tally.refusal = rowTooLarge()
    else return
    stream.destroy()
  })
  readFairly(stream)
  tallies.set(client, tally)
  return tally
}

/** Rows that nobody asked for are dropped as they come, and no answer grows past its bound. */
function boundedSession(client: Client | PoolClient, guard: Ask, max = maxAnswerBytes): OwnSession {
  const tally = tallyOf(client, max)
  const bounded = async <T>(ask: () => Promise<T>): Promise<T> => {
    tally.received = 0
    tally.ofMessage = 0
    return guard(ask).catch(error => {
      throw tally.refusal ?? error
    })
  }
  const plain = session(client)
  const results = async (text: string, reader?: ResultReader) => {
    tally.tag = ''
    const query = new ScriptQuery(text, reader)
    await bounded(() => {
      client.query(query as unknown as Submittable)
      return query.outcome.catch(told)
    })
    return tally.tag
  }
  return {
    rows: statement => bounded(() => plain.rows(statement)),
    row: statement => bounded(() => plain.row(statement)),
    run: statement => bounded(() => plain.run(statement)),
    script: async text => void (await results(text)),
    repeat: statement => bounded(() => plain.repeat(statement)),
    repeatRows: statement => bounded(() => plain.repeatRows(statement)),
    results,
  }
}

/** Thrown by readers, too, whose encoding of an answer may be longer than the answer. */
export const tooMuch = (max = maxAnswerBytes) =>
  new Refusal('sql_error', `A statement answered with more than ${max / 1024 / 1024} MB and was ended`, {
    hint: 'Ask for fewer rows with limit, or for fewer columns.',
  })

const rowTooLarge = () =>
  new Refusal('sql_error', `A row, notice or error has more than ${maxRowBytes / 1024 / 1024} MB`, {
    hint: 'Shorten it, for example with substring or left.',
  })

/** How a statement is sent: within its time, and again where that is safe. */
type Ask = <T>(work: () => Promise<T>) => Promise<T>
const once: Ask = work => work()

function session(client: Pool | PoolClient | Client, ask: Ask = once): Session {
  const query = async (statement: SqlFragment) => {
    const { text, values } = compile(statement)
    return ask(() => client.query(onlyOne(text, values))).catch(told)
  }
  const prepared = async (statement: SqlFragment) => {
    const { text, values } = compile(statement)
    return ask(() => client.query({ name: nameOf(text), text, values: [...values] })).catch(told)
  }
  return {
    rows: async <T>(statement: SqlFragment) => (await query(statement)).rows as T[],
    row: async <T>(statement: SqlFragment) => (await query(statement)).rows[0] as T | undefined,
    run: async statement => (await query(statement)).rowCount ?? 0,
    script: async text => void (await ask(() => client.query(text)).catch(told)),
    repeat: async statement => (await prepared(statement)).rowCount ?? 0,
    repeatRows: async <T>(statement: SqlFragment) => (await prepared(statement)).rows as T[],
  }
}

const nameOf = (text: string) => hash('sha256', text).slice(0, 32)

/** The extended protocol takes one statement at a time: whatever stands in the text, no second one runs. */
const onlyOne = (text: string, values: readonly unknown[]): QueryConfig =>
  ({ text, values, queryMode: 'extended' }) as unknown as QueryConfig

/** A server that cannot be reached is a refusal anybody may see; other errors go up with texts that can be passed on. */
function told(error: unknown): never {
  if (isUnavailable(error)) throw unavailable(error)
  if (isServerError(error)) makePassable(error)
  throw error
}

/** For statements of the platform's own: that others have filled the lock table is none of the caller's doing. */
function unlessFull(error: unknown): never {
  throw isLockTableFull(error) || isUnavailable(error) ? unavailable(error) : error
}
