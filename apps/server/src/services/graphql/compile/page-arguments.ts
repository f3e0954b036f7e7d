// The arguments of a collection: which rows, and in which order.
import type { PageOrder } from '#src/query/objects.ts'
import { fieldsByName } from '../schema/entity-fields.ts'
import type { Entity } from '../schema/model.ts'
import type { Compilation } from './compilation.ts'
import type { SelectedField } from './fields.ts'
import { embedOf } from './filters.ts'
import type { Given } from './given.ts'
import { DocumentProblem } from './problem.ts'

export interface Bounds {
  readonly limit: number
  readonly isBackward: boolean
  readonly cursor: Given | undefined
  readonly offset: Given | undefined
}

export function boundsOf(compilation: Compilation, { maxRows }: Entity, field: SelectedField): Bounds {
  const { fieldName } = field
  const given = (name: string): Given | undefined => {
    const argument = field.argument(name)
    return argument?.value === null ? undefined : argument
  }
  const count = (name: 'first' | 'last'): number | undefined => {
    const value = compilation.decides<number>(given(name))
    if (value !== undefined && value < 0)
      throw new DocumentProblem(`"${name}" of "${fieldName}" must not be negative`)
    return value
  }
  const [first, last] = [count('first'), count('last')]
  const [before, after, offset] = [given('before'), given('after'), given('offset')]
  const exclude = (one: string, other: string, areBoth: boolean) => {
    if (areBoth) throw new DocumentProblem(`"${one}" and "${other}" of "${fieldName}" exclude each other`)
  }
  exclude('first', 'last', first !== undefined && last !== undefined)
  exclude('before', 'after', before !== undefined && after !== undefined)
  exclude('first', 'before', first !== undefined && before !== undefined)
  exclude('last', 'after', last !== undefined && after !== undefined)
  exclude('offset', 'last', offset !== undefined && last !== undefined)
  exclude('offset', 'before', offset !== undefined && before !== undefined)
  if (offset && (offset.value as number) < 0)
    throw new DocumentProblem(`"offset" of "${fieldName}" must not be negative`)
  return {
    limit: Math.min(first ?? last ?? maxRows, maxRows),
    isBackward: last !== undefined || before !== undefined,
    cursor: before ?? after,
    offset,
  }
}

/** Terms of one `orderBy`. The condition that a cursor stands for grows with their square. */
const maxTerms = 16

/** As asked, then by the primary key, so that the order is total. */
export function orderOf(compilation: Compilation, entity: Entity, given: Given | undefined): PageOrder[] {
  const terms = given && given.value !== null ? given.items() : []
  if (terms.length > maxTerms)
    throw new DocumentProblem(`"orderBy" of "${entity.name}" has more than ${maxTerms} terms`)
  const asked = terms.flatMap(each => {
    compilation.countCondition()
    return termOf(entity, each)
  })
  const key = entity.key.map(
    ({ column }): PageOrder => ({ value: { column, path: [] }, isDescending: false, isNotNull: true }),
  )
  return [...asked, ...key]
}

function termOf(entity: Entity, given: Given): PageOrder[] {
  const [term, ...others] = given.fields().filter(([, { value }]) => value !== null)
  if (others.length > 0)
    throw new DocumentProblem(
      `An element of "orderBy" of "${entity.name}" has one field: use a list for several`,
    )
  if (!term) return []
  const [name, value] = term
  const { columns, links } = fieldsByName(entity)
  const column = columns.get(name)
  if (column)
    return [
      { ...directionOf(value), value: { column: column.column, path: [] }, isNotNull: column.isNotNull },
    ]
  const { link, target } = links.get(name)!
  return termOf(target, value).map(inner => {
    if (inner.embed)
      throw new DocumentProblem(
        `"orderBy" of "${entity.name}" can use columns of "${name}", but no further relation`,
      )
    return { ...inner, isNotNull: false, embed: embedOf(link, target, []) }
  })
}

function directionOf({ value }: Given): Pick<PageOrder, 'isDescending' | 'nulls'> {
  const direction = String(value)
  return {
    isDescending: direction.startsWith('Desc'),
    nulls: direction.endsWith('First') ? 'first' : 'last',
  }
}
