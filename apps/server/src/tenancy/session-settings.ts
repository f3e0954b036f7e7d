/** The session's own settings; RESET ALL returns to these, not to what a tenant stored for its roles. */
export const sessionSettings = {
  application_name: 'plinth',
  client_encoding: 'UTF8',
  local_preload_libraries: '',
  role: 'none',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
  idle_in_transaction_session_timeout: '10s',
}
