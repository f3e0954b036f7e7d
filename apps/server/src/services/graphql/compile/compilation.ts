// What the compilation of one operation knows and collects.
import { type FragmentDefinitionNode, GraphQLBoolean } from 'graphql'
import type { Model } from '../schema/model.ts'
import { type Given, type Origin, resolve, type Variables } from './given.ts'
import { DocumentProblem } from './problem.ts'
import { nodeIdIn, type ValueSource } from './values.ts'

export type Deciding = Map<string, 'value' | 'table'>

/** Conditions of all filters of an operation, and terms of all its orders. */
const maxConditions = 1000

export class Compilation {
  readonly model: Model
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
  readonly variables: Variables
  readonly booleanType = GraphQLBoolean
  /** Variables whose values are part of the plan, or of which only the table of a node id is. */
  readonly deciding: Deciding = new Map()
  readonly sources: ValueSource[] = []
  /** Rows that the answer may have at most. */
  #rows = 0
  #conditions = 0
  readonly #maxRows: number

  constructor(
    model: Model,
    fragments: ReadonlyMap<string, FragmentDefinitionNode>,
    variables: Variables,
    maxRows: number,
  ) {
    this.model = model
    this.fragments = fragments
    this.variables = variables
    this.#maxRows = maxRows
  }

  /** The index of the value in the list of values. */
  slot(source: ValueSource): number {
    return this.sources.push(source) - 1
  }

  text({ origin }: Given): number {
    return this.slot({ as: 'text', of: origin })
  }

  /** The value itself, on which the plan then depends. */
  decides<T>(given: Given | undefined): T | undefined {
    if (!given) return
    for (const name of variablesOf(given.origin)) this.deciding.set(name, 'value')
    return resolve(given.origin, this.variables) as T
  }

  /** The table that a node id names, and the number of its key's values. */
  tableOf(given: Given): { schema: string; table: string; keyLength: number } {
    for (const name of variablesOf(given.origin))
      if (!this.deciding.has(name)) this.deciding.set(name, 'table')
    const [schema, table, ...key] = nodeIdIn(given.value)
    return { schema: schema as string, table: table as string, keyLength: key.length }
  }

  countCondition(): void {
    if (++this.#conditions > maxConditions)
      throw new DocumentProblem(
        `The filters and orders have more than ${maxConditions} conditions and terms; a list of "in" is one`,
      )
  }

  countRows(rows: number): void {
    this.#rows += rows
    if (this.#rows > this.#maxRows)
      throw new DocumentProblem(
        `The query is too complex: it can return more than ${this.#maxRows} rows. Ask for smaller pages with "first", or for fewer levels`,
      )
  }
}

function* variablesOf(origin: Origin): Generator<string> {
  if ('variable' in origin) yield origin.variable
  else if ('list' in origin) for (const each of origin.list) yield* variablesOf(each)
  else if ('object' in origin) for (const [, each] of origin.object) yield* variablesOf(each)
}
