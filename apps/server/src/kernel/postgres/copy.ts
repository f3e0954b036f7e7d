// COPY in both directions with back-pressure, for dumps and restores. It uses our own protocol client, because `pg` calls
// back for every row and collects each row in memory.
import { guardedSettings } from './database.ts'
import type { ServerAddress } from './server-address.ts'
import { CopyConnection } from './wire/copy-connection.ts'
import type { ChunkSink } from './wire/copy-output.ts'
import { TextRows } from './wire/text-rows.ts'

/** A connection of its own for dumps and restores. It runs one statement at a time. */
export interface CopySession {
  /** Several statements without parameters, as one implicit transaction. */
  run(text: string): Promise<void>
  /** The rows of the last statement that returns some, as text values by column name. */
  rows<T>(text: string): Promise<T[]>
  /**
   * Passes the bytes of `COPY … TO STDOUT` to the sink in chunks of 128 KiB, which it may keep or give back. The next chunk
   * waits for its promise. An error of the sink ends the session and is thrown.
   */
  copyOut(statement: string, sink: ChunkSink): Promise<void>
  /**
   * Sends the source to `COPY … FROM STDIN`. An error of the source undoes the statement and is thrown. The chunks must not
   * change afterwards.
   */
  copyIn(statement: string, source: AsyncIterable<Buffer>): Promise<void>
}

interface CopyOptions {
  settings: Record<string, string>
  /** Ends the session. What runs then rejects with its reason. */
  signal?: AbortSignal | undefined
}

/** The text of values depends on these settings. A restore needs the same ones. */
export const textSettings: Record<string, string> = {
  client_encoding: 'UTF8',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '3',
  lc_monetary: 'C',
  xmloption: 'content',
}

/** Settings with which a dump is read: no name resolves to an object of the tenant, and a value has always the same text. */
export const dumpSettings: Record<string, string> = {
  ...guardedSettings,
  ...textSettings,
  search_path: '',
  // An error instead of rows that a policy filters.
  row_security: 'off',
  // Rows in the order in which they are stored.
  synchronize_seqscans: 'off',
  // A view or foreign table in place of a table would run code of the tenant.
  restrict_nonsystem_relation_kind: 'view, foreign-table',
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  transaction_timeout: '0',
}

/**
 * A statement runs on after its connection is closed, until the server checks for that. A cancel request alone is not enough:
 * one that arrives before the server has read the statement cancels nothing.
 */
const sessionSettings = { application_name: 'plinth', client_connection_check_interval: '2s' }

/** Settings that some supported versions of Postgres do not have. They would reject the login. */
const newerSettings = new Set(['restrict_nonsystem_relation_kind', 'transaction_timeout'])

/** Resolves when the session has ended. */
export async function withCopySession<T>(
  address: ServerAddress,
  database: string,
  { settings, signal }: CopyOptions,
  work: (session: CopySession) => Promise<T>,
): Promise<T> {
  const entries = Object.entries(settings)
  const atLogin = entries.filter(([name]) => !newerSettings.has(name))
  const later = entries.filter(([name]) => newerSettings.has(name))
  const connection = await CopyConnection.open(
    address,
    database,
    { ...sessionSettings, ...Object.fromEntries(atLogin) },
    signal,
  )
  try {
    const session = sessionOn(connection)
    if (later.length > 0) await session.run(setIfKnown(later))
    return await work(session)
  } finally {
    await connection.close()
  }
}

function sessionOn(connection: CopyConnection): CopySession {
  return {
    run: text => connection.run({ text }),
    async rows<T>(text: string) {
      const rows = new TextRows()
      await connection.run({ text, rows })
      return rows.rows as T[]
    },
    copyOut: (text, sink) => connection.run({ text, sink }),
    copyIn: (text, source) => connection.run({ text, source }),
  }
}

const setIfKnown = (settings: [string, string][]): string =>
  settings
    .map(([name, value]) => {
      const quoted = `'${value.replaceAll("'", "''")}'`
      return `select pg_catalog.set_config(name, ${quoted}, false) from pg_catalog.pg_settings where name = '${name}'`
    })
    .join(';')
