import { Refusal } from '#src/kernel/errors.ts'

/** Returns a row that this transaction has just written. A trigger of the project may have skipped or deleted it. */
export function expectRow<T>(row: T | undefined): T {
  if (row === undefined) throw changedByTrigger()
  return row
}

export const changedByTrigger = (cause?: unknown) =>
  new Refusal(
    'conflict',
    'A trigger of the project left out, changed or deleted a row that this request writes',
    {
      cause,
    },
  )
