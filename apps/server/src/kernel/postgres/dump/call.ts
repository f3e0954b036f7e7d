// How pg_dump is called, as WebAssembly and as a program.
import { guardedSettings } from '../database.ts'
import type { ServerAddress } from '../server-address.ts'

/** How long it waits for a table that another session has locked exclusively. */
const lockWaitMs = 60_000

/** No name resolves to an object of the tenant. Settings of the database or role do not change the text of the dump. */
const settings: Record<string, string> = {
  ...guardedSettings,
  search_path: '',
  statement_timeout: '0',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  quote_all_identifiers: 'off',
  // Otherwise a backend that waits for a lock would not notice that an aborted dump has closed its connection.
  client_connection_check_interval: '1000',
}

export const dumpArguments = (connection: string, snapshot: string | undefined): string[] => [
  '--format=custom',
  // The same as `none`, which an installed pg_dump before 16 would reject before it could report the version of the server.
  '--compress=0',
  '--schema-only',
  '--encoding=UTF8',
  `--lock-wait-timeout=${lockWaitMs}`,
  '--no-password',
  ...(snapshot === undefined ? [] : [`--snapshot=${snapshot}`]),
  `--dbname=${connection}`,
]

/** A connection string of libpq. The parameters replace those of the address. */
export function connectionString(
  { user }: ServerAddress,
  database: string,
  parameters: Record<string, string>,
): string {
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`)
  const all = {
    user,
    dbname: database,
    application_name: 'plinth',
    gssencmode: 'disable',
    options: options.join(' '),
    ...parameters,
  }
  return Object.entries(all)
    .map(([name, value]) => `${name}='${value.replace(/['\\]/g, '\\$&')}'`)
    .join(' ')
}
