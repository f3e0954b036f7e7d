// Finds the function of a call by its name and the names of the arguments.
import type { Catalog, Routine } from './catalog.ts'
import { QueryError, unknownFunction } from './problem.ts'

/**
 * `wholeTypes` are the types with which a function's only, unnamed parameter takes the arguments as one value;
 * `takesWhole` says that it does.
 */
export function findRoutine(
  catalog: Catalog,
  schema: string,
  name: string,
  given: readonly string[],
  wholeTypes: readonly string[],
): { routine: Routine; takesWhole: boolean } {
  const overloads = catalog.functions(schema, name)
  const names = new Set(given)
  const fitting = overloads.filter(routine => fits(routine, names))
  const exact = fitting.filter(({ parameters }) => parameters.length === given.length)
  const candidates = exact.length > 0 ? exact : fitting
  if (candidates.length > 1) throw new QueryError({ kind: 'ambiguous function', schema, name, candidates })
  const takers = overloads.filter(
    ({ parameters: [only, ...more] }) =>
      only?.name === '' && more.length === 0 && wholeTypes.includes(only.type),
  )
  const isNamed = candidates.length === 1 && (given.length > 0 || takers.length === 0)
  if (isNamed) return { routine: candidates[0]!, takesWhole: false }
  if (takers[0]) return { routine: takers[0], takesWhole: true }
  if (candidates[0]) return { routine: candidates[0], takesWhole: false }
  throw unknownFunction(catalog, schema, name, given)
}

/** Every argument has a parameter, and every parameter has an argument or a default. */
function fits({ parameters }: Routine, given: ReadonlySet<string>): boolean {
  // Parameter names are distinct, so that counting them is enough.
  const found = parameters.filter(({ name }) => name !== '' && given.has(name))
  return (
    found.length === given.size &&
    parameters.every(
      ({ name, hasDefault, isVariadic }) => hasDefault || isVariadic || (name !== '' && given.has(name)),
    )
  )
}
