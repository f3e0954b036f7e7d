// Sessions and pools with `pg`, for everything except requests of callers: the control database, provisioning,
// migrations, owners' sessions.
import { hash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type ClientConfig, Pool, type PoolClient, types } from 'pg'
import { countReceived, maxAnswerBytes } from './answer-limits.ts'
import { abandonConnection, type Deadline, withDeadline } from './deadline.ts'
import {
  backendOf,
  type DriverClient,
  fromDriver,
  type ResultReader,
  resizePool,
  runScript,
  singleStatement,
  socketOf,
} from './driver-internals.ts'
import { isLockTableFull, pauseMs, RetryBudget, retryWhileLockTableFull } from './full-lock-table.ts'
import type { ServerAddress } from './server-address.ts'
import { compile, type SqlFragment } from './sql.ts'
import { isUnavailable, unavailable } from './unavailable.ts'
import { requestCancel } from './wire/handshake.ts'

export interface Session {
  /** Like `row` and `run`, it executes exactly one statement, even if the text has several. */
  rows<T>(statement: SqlFragment): Promise<T[]>
  /** The first row, or undefined. */
  row<T>(statement: SqlFragment): Promise<T | undefined>
  /** Returns the number of affected rows. */
  run(statement: SqlFragment): Promise<number>
  /** Several statements without parameters, as one implicit transaction. */
  script(text: string): Promise<void>
  /** Like `run`, as a prepared statement, for statements that run often. */
  repeat(statement: SqlFragment): Promise<number>
  /** Like `rows`, as a prepared statement. */
  repeatRows<T>(statement: SqlFragment): Promise<T[]>
}

/** A session on its own connection. */
export interface OwnSession extends Session {
  /** Runs several statements and passes their rows to the reader. Resolves to the last command tag, like `SELECT 3`. */
  results(text: string, reader?: ResultReader): Promise<string>
}

export interface Database extends Session {
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>
  /** Waits half a second for running statements, then closes their connections. Resolves when all sessions have ended. */
  close(): Promise<void>
}

export interface PoolUse {
  /** Open connections. */
  open: number
  /** Connections that run statements. */
  busy: number
  /** Statements that wait for a connection. */
  waiting: number
  /** Connections that may be open. */
  max: number
}

export interface PooledDatabase extends Database {
  /** Changes the maximum number of connections. */
  resize(max: number): void
  use(): PoolUse
}

/** Settings of every superuser session. With this search_path, no name resolves to an object of a tenant. */
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

const closeGraceMs = 500
/** How long the server may take to end a session, and to end a cancelled statement, before the connection is closed. */
const abandonAfterMs = { end: 5000, cancel: 1000 }

interface PooledOptions extends Deadline {
  max?: number
  /** SQL that runs before each transaction. */
  beforeUse?: string
  /** Its transactions have no effects outside the database, so they are retried when the lock table is full. */
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
  let size = max
  let isClosed = false
  // An idle connection that breaks is replaced on its next use. Without a listener, the error would end the process.
  pool.on('error', error => {
    // A server that shuts down may report 57P01 on a connection that is being closed.
    if (!isClosed) onError(fromDriver(error) as Error)
  })
  const { promise: allEnded, resolve: endLast } = Promise.withResolvers<void>()
  const clients = new Set<PoolClient>()
  pool.on('connect', client => {
    clients.add(client)
    // The pool listens to idle connections only. A connection in use that breaks also rejects its query.
    client.on('error', () => {})
  })
  pool.on('remove', client => {
    clients.delete(client)
    if (isClosed && clients.size === 0) endLast()
  })
  return {
    ...session(pool, send => retryWhileLockTableFull(send).catch(refuseIfUnavailable)),
    transaction(work) {
      const attempt = async () => {
        const client = await retryWhileLockTableFull(() => pool.connect().catch(convert))
        const guard: Send = send => withDeadline(client, deadline, send)
        const run = (text: string) => guard(() => client.query(text).catch(convert))
        const send = retryFirstStatement(guard, async () => {
          await run('rollback')
          await run(`${beforeUse} begin`)
        })
        try {
          await run(`${beforeUse} begin`)
          const result = await work(
            maxAnswerBytes === Number.POSITIVE_INFINITY
              ? session(client, send)
              : boundedSession(client, send, maxAnswerBytes),
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
      return (isRepeatable ? retryWhileLockTableFull(attempt) : attempt()).catch(refuseIfUnavailable)
    },
    resize(wanted) {
      size = wanted
      resizePool(pool, wanted)
    },
    use() {
      const { totalCount: open, idleCount, waitingCount: waiting } = pool
      return { open, busy: open - idleCount, waiting, max: size }
    },
    async close() {
      const timer = setTimeout(() => {
        for (const client of clients) socketOf(client).destroy()
      }, closeGraceMs)
      isClosed = true
      if (clients.size === 0) endLast()
      await pool.end().catch(() => {})
      await allEnded
      clearTimeout(timer)
    },
  }
}

/** If the first statement of a transaction fails, no work is lost, so the transaction can begin again. */
function retryFirstStatement(send: Send, beginAgain: () => Promise<void>): Send {
  let isFirst = true
  return async work => {
    if (!isFirst) return send(work)
    isFirst = false
    const retries = new RetryBudget()
    for (;;)
      try {
        return await send(work)
      } catch (error) {
        if (!isLockTableFull(error) || !retries.allowsRetry()) throw error
        await sleep(pauseMs())
        await beginAgain()
      }
  }
}

interface ClientOptions extends Deadline {
  /** When it aborts, the running statement is cancelled. */
  signal?: AbortSignal | undefined
}

/**
 * Opens a connection for one piece of work, and closes it in any case. If the server does not react, the connection is
 * abandoned one second after the signal, or five seconds after the end of the work.
 */
export async function withClient<T>(
  address: ServerAddress,
  database: string,
  settings: Record<string, string>,
  work: (session: OwnSession) => Promise<T>,
  { signal, ...deadline }: ClientOptions = {},
): Promise<T> {
  const client = await connect(address, database, settings)
  let timer: NodeJS.Timeout | undefined
  const abandonAfter = (ms: number) => {
    timer ??= setTimeout(() => abandonConnection(client, deadline), ms)
  }
  const cancel = () => {
    void requestCancel(address, backendOf(client)).catch(() => {})
    abandonAfter(abandonAfterMs.cancel)
  }
  signal?.addEventListener('abort', cancel, { once: true })
  try {
    signal?.throwIfAborted()
    return await work(boundedSession(client, send => withDeadline(client, deadline, send)))
  } finally {
    signal?.removeEventListener('abort', cancel)
    abandonAfter(abandonAfterMs.end)
    await client.end().catch(() => {})
    clearTimeout(timer)
  }
}

async function connect(
  address: ServerAddress,
  database: string,
  settings: Record<string, string>,
): Promise<Client> {
  const attempt = async () => {
    const client = new Client({ ...clientConfig(address, database, settings), keepAlive: true })
    client.on('error', () => {}) // the query in flight rejects as well
    await client.connect().catch(convert)
    return client
  }
  return retryWhileLockTableFull(attempt).catch(refuseIfLost)
}

/** A connection that keeps its session (locks, listeners) until it is closed or breaks. */
export async function openSession(
  address: ServerAddress,
  database: string,
  deadline: Deadline = {},
): Promise<{ session: Session; close(): Promise<void> }> {
  const { timeoutMs } = deadline
  const timeout = timeoutMs === undefined ? {} : { statement_timeout: String(timeoutMs) }
  const client = await connect(address, database, { ...guardedSettings, ...timeout })
  return { session: session(client, send => withDeadline(client, deadline, send)), close: () => client.end() }
}

/** Limits the size of answers. Rows of `results` without a reader are dropped as they arrive. */
function boundedSession(client: DriverClient, guard: Send, max = maxAnswerBytes): OwnSession {
  const received = countReceived(client, max)
  const bounded = async <T>(send: () => Promise<T>): Promise<T> => {
    received.bytes = 0
    received.messageBytes = 0
    return guard(send).catch(error => {
      throw received.refusal ?? error
    })
  }
  const plain = session(client)
  const results = async (text: string, reader?: ResultReader) => {
    received.tag = ''
    await bounded(() => runScript(client, text, reader).catch(convert).catch(refuseIfLost))
    return received.tag
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

/** Wraps the sending of a statement, to add a deadline or retries. */
type Send = <T>(work: () => Promise<T>) => Promise<T>
const once: Send = work => work()

function session(client: Pool | DriverClient, send: Send = once): Session {
  const query = async (statement: SqlFragment) => {
    const { text, values } = compile(statement)
    return send(() => client.query(singleStatement(text, values)).catch(convert)).catch(refuseIfLost)
  }
  const prepared = async (statement: SqlFragment) => {
    const { text, values } = compile(statement)
    const named = { name: nameOf(text), text, values: [...values] }
    return send(() => client.query(named).catch(convert)).catch(refuseIfLost)
  }
  return {
    rows: async <T>(statement: SqlFragment) => (await query(statement)).rows as T[],
    row: async <T>(statement: SqlFragment) => (await query(statement)).rows[0] as T | undefined,
    run: async statement => (await query(statement)).rowCount ?? 0,
    script: async text => void (await send(() => client.query(text).catch(convert)).catch(refuseIfLost)),
    repeat: async statement => (await prepared(statement)).rowCount ?? 0,
    repeatRows: async <T>(statement: SqlFragment) => (await prepared(statement)).rows as T[],
  }
}

const nameOf = (text: string) => hash('sha256', text).slice(0, 32)

/** Must follow every call of the driver, so that its errors become a DatabaseError. */
function convert(error: unknown): never {
  throw fromDriver(error)
}

/** Converts a connection failure to a 503. */
function refuseIfLost(error: unknown): never {
  throw isUnavailable(error) ? unavailable(error) : error
}

/** For statements of the platform, whose caller did not fill the lock table: converts that error to a 503 too. */
function refuseIfUnavailable(error: unknown): never {
  throw isLockTableFull(error) || isUnavailable(error) ? unavailable(error) : error
}
