// What a connection runs, and what it answers.
import type { Value } from './encoder.ts'

export interface Step {
  /** Names the prepared statement; the role is part of it, because plans depend on the role. */
  key: string
  sql: string
  values: readonly Value[]
}
export type Cell = Buffer | null
export interface Answer {
  /** Rows of the answering step, as text. */
  rows: Cell[][]
  /** Its command tag, like `INSERT 0 3`. */
  tag: string
  /** How long it ran in Postgres, as seen from here. */
  ms: number
}

export interface Unit {
  steps: readonly Step[]
  /** Which step's rows are the answer: the last one unless something follows it. */
  answering: number
  /**
   * Runs with nothing else in flight, may be cancelled, and may run any code of a tenant: its statements are
   * parsed anew, and the session is cleaned before the connection is free again.
   */
  isLone: boolean
  /** Its statement_timeout. A server that has not answered well past it cannot interrupt what it runs. */
  timeoutMs?: number | undefined
  resolve(answer: Answer): void
  reject(error: Error): void
}
