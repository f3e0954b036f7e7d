// A unit is what a pipelined connection runs as one implicit transaction.
import type { Value } from './encoder.ts'

export interface Step {
  /** Identifies the prepared statement. It includes the role, because plans depend on the role. */
  key: string
  sql: string
  values: readonly Value[]
}
export type Cell = Buffer | null
export interface Answer {
  /** Rows of the answering steps, as text. */
  rows: Cell[][]
  /** The command tag of the last one, like `INSERT 0 3`. */
  tag: string
  /** Time from the end of the previous unit, or from the send, to its answer. */
  ms: number
}

export interface Unit {
  steps: readonly Step[]
  /** Index of the step whose rows are the answer. */
  answering: number
  /** Number of steps, from that one on, whose rows are the answer. Default: 1. */
  answers?: number | undefined
  /**
   * A lone unit runs with no other unit in flight, may be cancelled, and may run any code of a tenant. Its statements are
   * parsed each time, and the session is cleaned afterwards.
   */
  isLone: boolean
  /** Its statement_timeout. If the server has not answered well after it, it cannot interrupt the statement. */
  timeoutMs?: number | undefined
  resolve(answer: Answer): void
  reject(error: Error): void
}
