// Finds the function of a call by its name and the names of the arguments.
import type { Catalog, Parameter, Routine } from './catalog.ts'
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
  const [named, ...otherNamed] = exact.length > 0 ? exact : fitting
  if (named && otherNamed.length > 0)
    throw new QueryError({ kind: 'ambiguous function', schema, name, candidates: fitting })
  if (named) return { routine: named, takesWhole: false }
  const takers = overloads.filter(
    ({ parameters: [only, ...more] }) =>
      only?.name === '' && more.length === 0 && wholeTypes.includes(only.type),
  )
  if (takers.length > 1)
    throw new QueryError({ kind: 'ambiguous function', schema, name, candidates: takers })
  if (takers[0]) return { routine: takers[0], takesWhole: true }
  throw unknownFunction(catalog, schema, name, given)
}

/** Every argument has a parameter, and every parameter has an argument or a default. */
function fits({ parameters }: Routine, given: ReadonlySet<string>): boolean {
  const found = parameters.filter(isGiven(given))
  // Parameter names are distinct, so that counting them is enough. Only the first parameter may be unnamed.
  return (
    found.length === given.size &&
    parameters.every(
      (parameter, index) => parameter.hasDefault || parameter.isVariadic || isGiven(given)(parameter, index),
    )
  )
}

const isGiven =
  (given: ReadonlySet<string>) =>
  ({ name }: Parameter, index: number): boolean =>
    given.has(name) && (name !== '' || index === 0)
