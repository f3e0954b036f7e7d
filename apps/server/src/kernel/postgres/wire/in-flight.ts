// A unit that was sent, and what the server has answered so far.
import type { DatabaseError } from '../database-error.ts'
import type { Cell, Unit } from './unit.ts'

export interface InFlight {
  unit: Unit
  rows: Cell[][]
  bytes: number
  tag: string
  error: DatabaseError | undefined
  /** Steps that the server has begun to run, and steps it has completed. */
  stepsBegun: number
  stepsDone: number
  /** The keys of statements that this unit parses, in order, and how many the server has confirmed. */
  parsing: string[]
  parsed: number
  isRetry: boolean
}

/** Whether the step that runs now belongs to the answer. */
export const isAnswering = ({ stepsDone, unit: { answering, answers = 1 } }: InFlight): boolean =>
  stepsDone >= answering && stepsDone < answering + answers

export const newInFlight = (unit: Unit, isRetry: boolean): InFlight => ({
  unit,
  rows: [],
  bytes: 0,
  tag: '',
  error: undefined,
  stepsBegun: 0,
  stepsDone: 0,
  parsing: [],
  parsed: 0,
  isRetry,
})
