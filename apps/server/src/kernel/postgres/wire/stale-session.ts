// State that earlier requests leave in a session, and the errors that it causes.

/** Errors that a prepared statement may cause after the schema has changed. */
export const staleStatement = new Set([
  '0A000',
  '26000',
  '42P01',
  '42703',
  '42883',
  '42804',
  '22P02',
  '22P03',
  '22003',
  '22007',
  '22008',
])
export const nameTaken = '42P05'
/** A tenant's code has made later transactions read-only. That setting survives the rollback of its unit. */
export const readOnly = new Set(['25006', '25001'])
/** Removes the state that a tenant's code may leave in a session. */
export const cleanUp = 'reset all; close all; unlisten *; discard sequences; select pg_advisory_unlock_all()'
