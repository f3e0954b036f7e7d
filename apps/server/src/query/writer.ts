// Collects parameters and aliases while SQL is written. Only this file and the `-sql` files of this folder turn a query
// into SQL: values become parameters, names pass through `identifier`, and the rest is constant text.
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Metric } from './items.ts'

/** A value has one parameter, wherever the statement uses it. */
export class Writer {
  /** The index of the value of each parameter. */
  readonly parameters: number[] = []
  readonly #numbers = new Map<number, number>()
  readonly #vectorSchema: string | undefined
  /** The expression for the whole row of an alias, where `alias.*` is not a row of the relation. */
  readonly rows = new Map<string, string>()
  #aliases = 0

  constructor(vectorSchema: string | undefined) {
    this.#vectorSchema = vectorSchema
  }

  parameter(slot: number): string {
    const known = this.#numbers.get(slot)
    if (known !== undefined) return `$${known}`
    const number = this.parameters.push(slot)
    this.#numbers.set(slot, number)
    return `$${number}`
  }

  alias(prefix = 't'): string {
    return `${prefix}${this.#aliases++}`
  }

  wholeRow(alias: string): string {
    return this.rows.get(alias) ?? `${alias}.*`
  }

  vector(slot: number): string {
    return `${this.parameter(slot)}::${identifier(this.#vectorSchema!)}."vector"`
  }

  distance(metric: Metric): string {
    return `operator(${identifier(this.#vectorSchema!)}.${{ l2: '<->', cosine: '<=>', ip: '<#>' }[metric]})`
  }
}

export const qualified = ({ schema, name }: { schema: string; name: string }): string =>
  `${identifier(schema)}.${identifier(name)}`
