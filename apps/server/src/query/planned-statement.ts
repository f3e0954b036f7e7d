// The result of planning: a statement that runs with different values.
import { type CallerStatement, statement } from '#src/tenancy/databases.ts'
import type { Writer } from './writer.ts'

export interface PlannedStatement {
  readonly statement: CallerStatement
  /** The index of the value of each parameter. */
  readonly parameters: readonly number[]
  /** Statements that run after it in the same transaction. */
  readonly more?: readonly PlannedStatement[]
}

/** Returns the plan of Postgres instead of rows. */
export interface Explain {
  readonly format: 'text' | 'json'
  readonly options: readonly ExplainOption[]
}
export type ExplainOption = 'analyze' | 'verbose' | 'settings' | 'buffers' | 'wal'

export function plannedStatement(
  { sql, writer }: { sql: string; writer: Writer },
  mayPipeline: boolean,
  explain?: Explain,
): PlannedStatement {
  const text = explain
    ? `explain (${[`format ${explain.format}`, ...explain.options].join(', ')}) ${sql}`
    : sql
  return { statement: statement(text, mayPipeline && !explain), parameters: writer.parameters }
}
