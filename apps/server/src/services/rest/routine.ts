// Which function a call means: by its name and the names of the arguments given.
import { Refusal } from '#src/kernel/errors.ts'
import type { Catalog, Routine } from '#src/query/catalog.ts'
import { unknownFunction } from '#src/query/unknown-names.ts'

/** `wholeBody` are the types a function's only, unnamed parameter may have to take the body as it is. */
export function findRoutine(
  catalog: Catalog,
  schema: string,
  name: string,
  given: readonly string[],
  wholeBody: readonly string[],
): { routine: Routine; takesBody: boolean } {
  const overloads = catalog.functions(schema, name)
  const names = new Set(given)
  const fitting = overloads.filter(routine => fits(routine, names))
  const exact = fitting.filter(({ parameters }) => parameters.length === given.length)
  const candidates = exact.length > 0 ? exact : fitting
  if (candidates.length > 1) throw ambiguous(schema, name, candidates)
  const takers = overloads.filter(
    ({ parameters: [only, ...more] }) =>
      only?.name === '' && more.length === 0 && wholeBody.includes(only.type),
  )
  const isNamed = candidates.length === 1 && (given.length > 0 || takers.length === 0)
  if (isNamed) return { routine: candidates[0]!, takesBody: false }
  if (takers[0]) return { routine: takers[0], takesBody: true }
  if (candidates[0]) return { routine: candidates[0], takesBody: false }
  throw unknownFunction(catalog, schema, name, given)
}

function fits({ parameters }: Routine, given: ReadonlySet<string>): boolean {
  // Names are distinct: where all that are given are found, as many parameters have them.
  const found = parameters.filter(({ name }) => name !== '' && given.has(name))
  return (
    found.length === given.size &&
    parameters.every(
      ({ name, hasDefault, isVariadic }) => hasDefault || isVariadic || (name !== '' && given.has(name)),
    )
  )
}

function ambiguous(schema: string, name: string, candidates: readonly Routine[]): Refusal {
  const signatures = candidates.map(
    ({ parameters }) =>
      `${schema}.${name}(${parameters.map(parameter => `${parameter.name} => ${parameter.type}`).join(', ')})`,
  )
  return new Refusal(
    'PGRST203',
    `Could not choose the best candidate function between: ${signatures.join(', ')}`,
    {
      hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
    },
  )
}
