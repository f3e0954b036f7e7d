// Filters as conditions.
import type { Operator, Test, Truth } from '#src/query/items.ts'
import { type Embed, type Level, type Link, sourceOf, type Where } from '#src/query/level.ts'
import { fieldsByName } from '../schema/entity-fields.ts'
import type { ColumnField, Entity, LinkField } from '../schema/model.ts'
import type { Compilation } from './compilation.ts'
import type { Given } from './given.ts'
import { DocumentProblem } from './problem.ts'

/** Empty and null filters are ignored. */
export function filterOf(compilation: Compilation, entity: Entity, given: Given | undefined): Where[] {
  if (!given || given.value === null) return []
  return given.fields().flatMap(([name, value]) => conditionsOf(compilation, entity, name, value))
}

function conditionsOf(compilation: Compilation, entity: Entity, name: string, given: Given): Where[] {
  compilation.countCondition()
  if (given.value === null) return []
  switch (name) {
    case 'and':
      return given.items().flatMap(each => filterOf(compilation, entity, each))
    case 'or': {
      const choices = given
        .items()
        .map(each => filterOf(compilation, entity, each))
        .filter(each => each.length > 0)
      return choices.length > 0 ? [group('or', choices.map(all))] : []
    }
    case 'not': {
      const conditions = filterOf(compilation, entity, given)
      return conditions.length > 0 ? [not(conditions)] : []
    }
    case 'nodeId':
      return given.fields().flatMap(([, value]) => nodeIdConditions(compilation, entity, value))
  }
  const { columns, links } = fieldsByName(entity)
  const column = columns.get(name)
  if (column) return given.fields().map(([operator, value]) => testOf(compilation, column, operator, value))
  const link = links.get(name)
  if (link) return linkConditions(compilation, link, given)
  throw new DocumentProblem(`The filter of "${entity.name}" has no field "${name}"`)
}

const group = (joiner: 'and' | 'or', conditions: readonly Where[], isNegated = false): Where => ({
  kind: 'group',
  joiner,
  isNegated,
  conditions,
})
const all = (conditions: readonly Where[]): Where => group('and', conditions)
const not = (conditions: readonly Where[]): Where => group('and', conditions, true)

const operators: Record<string, Operator> = {
  eq: 'eq',
  neq: 'neq',
  lt: 'lt',
  lte: 'lte',
  gt: 'gt',
  gte: 'gte',
  in: 'in',
  startsWith: 'startsWith',
  like: 'like',
  ilike: 'ilike',
  regex: 'match',
  iregex: 'imatch',
  contains: 'cs',
  containedBy: 'cd',
  overlaps: 'ov',
}

export const equals = ({ column }: Pick<ColumnField, 'column'>, slot: number): Where =>
  test({ column }, { operator: 'eq', slot })

function test(
  { column }: Pick<ColumnField, 'column'>,
  { operator, slot, isNegated = false, truth }: Partial<Test> & { operator: Operator; slot: number },
): Where {
  const field = { column: column.name, path: [] }
  return {
    kind: 'test',
    value: { column, path: [] },
    test: { kind: 'test', field, operator, slot, isNegated, ...(truth && { truth }) },
  }
}

function testOf(compilation: Compilation, column: ColumnField, name: string, given: Given): Where {
  if (name === 'is') {
    if (given.value === null) throw new DocumentProblem(`"is" of "${column.name}" takes NULL or NOT_NULL`)
    const truth: Truth = 'null'
    return test(column, { operator: 'is', truth, isNegated: given.value === 'NOT_NULL', slot: -1 })
  }
  const as = column.type.isList || name === 'in' ? 'list' : 'text'
  const slot = compilation.slot({ as, of: given.origin })
  return test(column, { operator: operators[name]!, slot })
}

export function nodeIdConditions(compilation: Compilation, { relation, key }: Entity, given: Given): Where[] {
  const { schema, name } = relation
  return key.map((column, index) => {
    const source = { as: 'node id', of: given.origin, index, length: key.length } as const
    return equals(column, compilation.slot({ ...source, table: [schema, name] }))
  })
}

function linkConditions(compilation: Compilation, { link, target }: LinkField, given: Given): Where[] {
  const exists = (where: readonly Where[], isNegated: boolean): Where => ({
    kind: 'exists',
    isNegated,
    embed: embedOf(link, target, where),
  })
  if (link.isToOne) {
    const where = filterOf(compilation, target, given)
    return where.length > 0 ? [exists(where, false)] : []
  }
  return given.fields().flatMap(([name, value]) => {
    if (value.value === null) return []
    const where = filterOf(compilation, target, value)
    if (name === 'every') return where.length > 0 ? [exists([not(where)], true)] : []
    return [exists(where, name === 'none')]
  })
}

export const embedOf = (link: Link, { relation }: Entity, where: readonly Where[]): Embed => ({
  name: relation.name,
  link,
  isInner: false,
  isSpread: false,
  level: levelOf(relation, where),
})

export const levelOf = (relation: Entity['relation'], where: readonly Where[]): Level => ({
  source: sourceOf(relation),
  outputs: [],
  embeds: [],
  where,
  order: [],
})
