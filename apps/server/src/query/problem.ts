// Why a query cannot be planned or run, as data. Each front end converts these to its own error messages.
import { closest } from '@plinth/contract/closest.ts'
import type { Catalog, Relation, Relationship, Routine } from './catalog.ts'

export type Problem = PlanningProblem | RunningProblem

/** The query does not fit the schema. `nearest` is an existing name that a typing mistake may have meant. */
export type PlanningProblem =
  | (Unknown & { readonly kind: 'unknown relation'; readonly schema: string })
  | (Unknown & { readonly kind: 'unknown column' | 'unknown payload column'; readonly relation: string })
  | UnknownFunction
  | {
      readonly kind: 'ambiguous function'
      readonly schema: string
      readonly name: string
      readonly candidates: readonly Routine[]
    }
  | (Unknown & {
      readonly kind: 'no relationship'
      readonly origin: Relation
      readonly hint: string | undefined
    })
  | { readonly kind: 'embed in a function result'; readonly origin: string; readonly name: string }
  | {
      readonly kind: 'ambiguous relationship'
      readonly origin: Relation
      readonly name: string
      readonly candidates: readonly Relationship[]
    }
  | { readonly kind: 'unknown embed' | 'condition on embed'; readonly name: string }
  | { readonly kind: 'order by many rows'; readonly origin: string; readonly name: string }
  | { readonly kind: 'aggregate in a to-many spread' }
  | { readonly kind: 'no vector extension' }
  | { readonly kind: 'not a vector'; readonly column: string }
  | { readonly kind: 'too many outputs'; readonly max: number }
  | { readonly kind: 'impossible cast'; readonly type: string }
  | { readonly kind: 'no conflict target'; readonly relation: string }
  /** Of a front end that checks queries itself. */
  | { readonly kind: 'invalid query'; readonly messages: readonly string[] }

/** The statement rejected its own result, or the schema changed in every attempt. */
export type RunningProblem =
  | { readonly kind: 'not one row' | 'too many rows'; readonly rows: string }
  | { readonly kind: 'schema keeps changing' }

interface Unknown {
  readonly name: string
  readonly nearest: string | undefined
}
interface UnknownFunction {
  readonly kind: 'unknown function'
  readonly schema: string
  readonly name: string
  /** Names of the arguments, where they are known already. */
  readonly given: readonly string[] | undefined
  readonly nearest: Routine | undefined
}

export class QueryError extends Error {
  readonly problem: Problem
  constructor(problem: Problem) {
    super(problem.kind)
    this.name = 'QueryError'
    this.problem = problem
  }
}

export function unknownRelation(catalog: Catalog, schema: string, name: string): QueryError {
  const nearest = closest(name, catalog.relationNames(schema))
  return new QueryError({ kind: 'unknown relation', schema, name, nearest })
}

export const unknownColumn = (relation: string, name: string, known: Iterable<string>): QueryError =>
  new QueryError({ kind: 'unknown column', relation, name, nearest: closest(name, [...known]) })

export const unknownPayloadColumn = (relation: string, name: string, known: Iterable<string>): QueryError =>
  new QueryError({ kind: 'unknown payload column', relation, name, nearest: closest(name, [...known]) })

export function unknownFunction(
  catalog: Catalog,
  schema: string,
  name: string,
  given?: readonly string[],
): QueryError {
  const overloads = catalog.functions(schema, name)
  const nearestName = overloads.length > 0 ? name : closest(name, catalog.functionNames(schema))
  const candidates = nearestName === undefined ? [] : catalog.functions(schema, nearestName)
  const names = new Set(given)
  let nearest: Routine | undefined
  let most = -1
  for (const candidate of candidates) {
    if (nearestName === name && isCall(candidate, names)) continue
    const shared = candidate.parameters.filter(each => names.has(each.name)).length
    if (shared <= most) continue
    nearest = candidate
    most = shared
  }
  return new QueryError({ kind: 'unknown function', schema, name, given, nearest })
}

/** Whether the message about this function would repeat the call that has just failed. */
function isCall({ parameters }: Routine, given: ReadonlySet<string>): boolean {
  const names = parameters.map(({ name }) => name).filter(name => name !== '')
  return names.length === given.size && names.every(name => given.has(name))
}
