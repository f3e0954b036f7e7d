import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Tenant } from './directory.ts'

/** Sent at connection start. RESET ALL returns to these, not to settings that a tenant stored for its roles. */
export const sessionSettings = {
  application_name: 'plinth',
  client_encoding: 'UTF8',
  local_preload_libraries: '',
  role: 'none',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  idle_in_transaction_session_timeout: '10s',
}

/** The search path for SQL of callers. */
export const searchPathOf = ({ exposedSchemas }: Tenant): string =>
  [...exposedSchemas, 'extensions', 'pg_temp'].map(identifier).join(', ')
