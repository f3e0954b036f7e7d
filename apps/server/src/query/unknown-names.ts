// Refusals for names the catalogue does not hold, with the nearest one that it does.
import { closest } from '@plinth/contract/closest.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Catalog } from './catalog.ts'

export function unknownRelation(catalog: Catalog, schema: string, name: string): Refusal {
  const meant = closest(name, catalog.relationNames(schema))
  return new Refusal('PGRST205', `Could not find the table '${schema}.${name}' in the schema cache`, {
    hint: meant ? `Perhaps you meant the table '${schema}.${meant}'` : '',
  })
}

export function unknownColumn(relation: string, name: string, known: Iterable<string>): Refusal {
  const meant = closest(name, [...known])
  return new Refusal('42703', `column ${relation}.${name} does not exist`, {
    hint: meant ? `Perhaps you meant to reference the column "${relation}.${meant}".` : '',
  })
}

/** A key of the body, or of `columns`. */
export function unknownKey(relation: string, name: string, known: Iterable<string>): Refusal {
  const meant = closest(name, [...known])
  return new Refusal('PGRST204', `Could not find the '${name}' column of '${relation}' in the schema cache`, {
    hint: meant ? `Perhaps you meant the column '${meant}'` : '',
  })
}

const maxShown = 20

/** Without `given` it is not known yet which arguments were sent. */
export function unknownFunction(
  catalog: Catalog,
  schema: string,
  name: string,
  given?: readonly string[],
): Refusal {
  const shown = given && given.length > maxShown ? [...given.slice(0, maxShown), '…'] : (given ?? [])
  const called = `${schema}.${name}${shown.length > 0 ? `(${shown.join(', ')})` : ''}`
  const meant =
    catalog.functions(schema, name).length > 0 ? name : closest(name, catalog.functionNames(schema))
  const parameters = meant
    ? catalog.functions(schema, meant)[0]!.parameters.map(parameter => parameter.name)
    : []
  return new Refusal('PGRST202', `Could not find the function ${called} in the schema cache`, {
    details: `Searched for the function ${schema}.${name}${given ? argumentsIn(given, shown) : ''}, but no matches were found in the schema cache.`,
    hint: meant ? `Perhaps you meant to call the function ${schema}.${meant}(${parameters.join(', ')})` : '',
  })
}

const argumentsIn = (given: readonly string[], shown: readonly string[]): string =>
  given.length > 0
    ? ` with parameter${given.length > 1 ? 's' : ''} ${shown.join(', ')}`
    : ' without parameters'
