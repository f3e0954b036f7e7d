// What collects parameters while SQL is written. Together with the `-sql` files of this folder it is the only place
// where a request turns into SQL: values become parameters, names go through `identifier`, the rest is text of ours.
import { identifier } from '#src/kernel/postgres/sql.ts'

/** What becomes of a value on its way to a parameter. */
export type Binding = 'text' | 'pattern' | 'list'
export interface Parameter {
  /** Place among the request's values, or what else it is. */
  readonly slot: number | 'body'
  readonly binding: Binding
}

/** Collects parameters while text is written; the same value is the same parameter wherever it appears. */
export class Writer {
  readonly parameters: Parameter[] = []
  readonly #numbers = new Map<string, number>()
  readonly #vectorSchema: string | undefined
  /** Where the whole row of an alias is found when `alias.*` is not a row of the relation. */
  readonly rows = new Map<string, string>()
  #aliases = 0

  constructor(vectorSchema: string | undefined) {
    this.#vectorSchema = vectorSchema
  }

  parameter(slot: number | 'body', binding: Binding = 'text'): string {
    const key = `${slot} ${binding}`
    const known = this.#numbers.get(key)
    if (known !== undefined) return `$${known}`
    const number = this.parameters.push({ slot, binding })
    this.#numbers.set(key, number)
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

  distance(metric: 'l2' | 'cosine' | 'ip'): string {
    return `operator(${identifier(this.#vectorSchema!)}.${{ l2: '<->', cosine: '<=>', ip: '<#>' }[metric]})`
  }
}

export const qualified = ({ schema, name }: { schema: string; name: string }): string =>
  `${identifier(schema)}.${identifier(name)}`
