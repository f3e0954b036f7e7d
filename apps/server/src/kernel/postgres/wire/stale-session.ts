// Errors that come from what a session remembers, not from the request.

/** Errors that may only mean that a statement prepared earlier no longer fits the schema. */
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
/** A tenant's code has made later transactions read-only: its settings outlive a unit that was rolled back. */
export const readOnly = new Set(['25006', '25001'])
