// Plans a query: resolves every name in the catalogue. These functions are pure.
import type { Catalog, Relation } from './catalog.ts'
import {
  type Condition,
  type Field,
  nameOf,
  type OrderTerm,
  type RowsQuery,
  type SelectEmbed,
  type SelectField,
  type SelectItem,
} from './items.ts'
import {
  type Embed,
  type Level,
  type Link,
  type Order,
  type Output,
  type Source,
  sourceOf,
  sourceOfRoutine,
  type Value,
  type Where,
} from './level.ts'
import { QueryError, unknownColumn, unknownRelation } from './problem.ts'
import { findLink } from './relationship.ts'

/** Output columns of one query, in all its levels together. Postgres itself allows 1664 columns in one level. */
export const maxOutputs = 2000

export function findRelation(catalog: Catalog, schema: string, name: string): Relation {
  const relation = catalog.relation(schema, name)
  if (!relation) throw unknownRelation(catalog, schema, name)
  return relation
}

/** `format` is that of the answer. Embedded rows are always JSON. */
export function planRows(
  catalog: Catalog,
  source: Source,
  query: RowsQuery,
  format: 'json' | 'text' = 'json',
): Level {
  return planLevel({ catalog, outputsLeft: maxOutputs }, source, query, format)
}

interface Planning {
  readonly catalog: Catalog
  outputsLeft: number
}

/** The outputs and embeds of a level while its select is planned. */
interface Selected {
  readonly source: Source
  readonly format: 'json' | 'text'
  readonly outputs: Output[]
  readonly embeds: Embed[]
}

function planLevel(
  planning: Planning,
  source: Source,
  query: RowsQuery,
  format: 'json' | 'text' = 'json',
): Level {
  const { catalog } = planning
  const selected: Selected = { source, format, outputs: [], embeds: [] }
  for (const item of query.select) addItem(planning, selected, item)
  const { outputs, embeds } = selected
  return {
    source,
    outputs,
    embeds,
    where: query.where.map(condition => planCondition(catalog, selected, condition)),
    order: query.order.map(term => planOrder(catalog, selected, term)),
    limit: query.limit,
    offset: query.offset,
  }
}

function addItem(planning: Planning, selected: Selected, item: SelectItem): void {
  const { source, format, outputs } = selected
  planning.outputsLeft -= item.kind === 'star' ? source.columns.size : 1
  if (planning.outputsLeft < 0) throw new QueryError({ kind: 'too many outputs', max: maxOutputs })
  if (item.kind === 'star') {
    for (const column of source.columns.values())
      outputs.push({ kind: 'value', name: column.name, value: shown({ column, path: [] }, format) })
    return
  }
  if (item.kind === 'embed') return addEmbed(planning, selected, item)
  if (item.kind === 'count' || (item.isCountByDefault && !hasField(source, item))) {
    outputs.push({ kind: 'aggregate', name: item.alias ?? 'count', call: 'count', resultCast: item.cast })
    return
  }
  const value = resolveField(source, item.field)
  const name = item.alias ?? item.aggregate ?? nameOf(item.field)
  if (item.aggregate)
    outputs.push({
      kind: 'aggregate',
      name,
      call: item.aggregate,
      value,
      cast: item.cast,
      resultCast: item.aggregateCast,
    })
  else if (item.cast !== undefined) outputs.push({ kind: 'value', name, value, cast: item.cast })
  else outputs.push({ kind: 'value', name, value: shown(value, format) })
}

/** A value of a domain that has its own representation in this format. */
function shown(value: Value, format: 'json' | 'text'): Value {
  const { column, path } = value
  const shownBy =
    path.length > 0 ? undefined : column?.representation?.[format === 'json' ? 'toJson' : 'toText']
  return shownBy ? { ...value, shownBy } : value
}

const hasField = ({ columns, relation }: Source, { field }: SelectField): boolean =>
  columns.has(field.column) || (relation?.computed.has(field.column) ?? false)

function addEmbed(planning: Planning, { source, outputs, embeds }: Selected, item: SelectEmbed): void {
  const { relation } = source
  if (!relation)
    throw new QueryError({ kind: 'embed in a function result', origin: source.name, name: item.relation })
  const link = findLink(relation, item.relation, item.hint)
  const embed: Embed = {
    name: item.alias ?? item.relation,
    link,
    isInner: item.isInner,
    isSpread: item.isSpread,
    level: planLevel(planning, sourceOfLink(link), item.query),
  }
  embeds.push(embed)
  // An empty embed or spread only serves filters.
  if (item.query.select.length === 0 || (item.isSpread && embed.level.outputs.length === 0)) return
  if (item.isSpread) {
    if (!link.isToOne && embed.level.outputs.some(output => output.kind === 'aggregate'))
      throw new QueryError({ kind: 'aggregate in a to-many spread' })
    outputs.push({ kind: 'spread', embed })
  } else outputs.push({ kind: 'embed', name: embed.name, embed })
}

const sourceOfLink = (link: Link): Source =>
  link.kind === 'key' ? sourceOf(link.relationship.target) : sourceOfRoutine(link.routine)

function resolveField({ name, columns, relation }: Source, { column, path }: Field): Value {
  const found = columns.get(column)
  if (found) return { column: found, path }
  const computed = relation?.computed.get(column)
  if (computed && computed.returns !== 'void' && !computed.isSet) return { computed, path }
  throw unknownColumn(name, column, columns.keys())
}

function planOrder(
  catalog: Catalog,
  { source, embeds }: Selected,
  { relation, field, ...rest }: OrderTerm,
): Order {
  const embed = relation === undefined ? undefined : embeds.find(({ name }) => name === relation)
  if (relation !== undefined && !embed) throw new QueryError({ kind: 'unknown embed', name: relation })
  if (embed && !embed.link.isToOne)
    throw new QueryError({ kind: 'order by many rows', origin: source.name, name: embed.name })
  const value = resolveField(embed?.level.source ?? source, field)
  if (rest.metric) needVectors(catalog, field, value)
  return { value, embed, ...rest }
}

function planCondition(catalog: Catalog, selected: Selected, condition: Condition): Where {
  if (condition.kind === 'group')
    return {
      ...condition,
      conditions: condition.conditions.map(each => planCondition(catalog, selected, each)),
    }
  const { source, embeds } = selected
  const { field, operator, isNegated, truth } = condition
  const embed = field.path.length === 0 && embeds.find(({ name }) => name === field.column)
  if (embed && operator === 'is' && truth === 'null') return { kind: 'exists', embed, isNegated: !isNegated }
  if (embed && !source.columns.has(field.column))
    throw new QueryError({ kind: 'condition on embed', name: field.column })
  const value = resolveField(source, field)
  if (operator === 'l2' || operator === 'cosine' || operator === 'ip') needVectors(catalog, field, value)
  return { kind: 'test', value, test: condition }
}

const vectorType = /(?:^|\.)"?vector"?(?:\(\d+\))?$/

function needVectors(catalog: Catalog, { column }: Field, value: Value): void {
  if (catalog.extension('vector') === undefined) throw new QueryError({ kind: 'no vector extension' })
  const type = value.computed?.type ?? value.column?.type ?? ''
  if (value.path.length > 0 || !vectorType.test(type)) throw new QueryError({ kind: 'not a vector', column })
}
