import { Refusal } from '#src/kernel/errors.ts'

/** A row that must be there after what was written. A trigger of the project can leave it out, change it or delete it. */
export function written<T>(row: T | undefined): T {
  if (row === undefined) throw interfered()
  return row
}

export const interfered = (cause?: unknown) =>
  new Refusal(
    'conflict',
    'A trigger of the project left out, changed or deleted a row that this request writes',
    {
      cause,
    },
  )
