// From a scanned request and the catalogue to a plan: every name resolved, every part in its place. Pure.
import { Refusal } from '#src/kernel/errors.ts'
import type { Catalog, Column, Relation, Routine } from './catalog.ts'
import { type Field, type JsonStep, nameOf } from './field.ts'
import type { Condition, Test } from './filter.ts'
import { type OrderTerm, parseOrder } from './order.ts'
import { findLink, type Link } from './relationship.ts'
import type { Part } from './scan.ts'
import {
  type Aggregate,
  maxOutputs,
  parseSelect,
  type SelectEmbed,
  type SelectItem,
  tooManyOutputs,
} from './select.ts'
import { unknownColumn } from './unknown-names.ts'

/** What rows come from: a relation, or what a function returns. */
export interface Source {
  readonly name: string
  readonly columns: ReadonlyMap<string, Column>
  readonly relation?: Relation | undefined
}

export interface Value {
  readonly column?: Column
  /** A function of the row instead of a column. */
  readonly computed?: Routine
  readonly path: readonly JsonStep[]
}

export type Output =
  | {
      readonly kind: 'value'
      readonly name: string
      readonly value: Value
      readonly cast?: string | undefined
    }
  | {
      readonly kind: 'aggregate'
      readonly name: string
      readonly call: Aggregate
      /** Without one it counts rows. */
      readonly value?: Value | undefined
      readonly cast?: string | undefined
      readonly resultCast?: string | undefined
    }
  | { readonly kind: 'embed'; readonly name: string; readonly embed: Embed }
  | { readonly kind: 'spread'; readonly embed: Embed }

export interface Embed {
  readonly name: string
  readonly link: Link
  readonly isInner: boolean
  readonly isSpread: boolean
  readonly level: Level
}

export type Where =
  | { readonly kind: 'test'; readonly value: Value; readonly test: Test }
  | { readonly kind: 'exists'; readonly embed: Embed; readonly isNegated: boolean }
  | {
      readonly kind: 'group'
      readonly joiner: 'and' | 'or'
      readonly isNegated: boolean
      readonly conditions: readonly Where[]
    }

export interface Order {
  readonly value: Value
  /** The to-one relation the value is read from. */
  readonly embed?: Embed | undefined
  readonly metric?: 'l2' | 'cosine' | 'ip' | undefined
  readonly slot?: number | undefined
  readonly isDescending: boolean
  readonly nulls?: 'first' | 'last' | undefined
}

/** One level of rows: the request's own, or those of an embedded relation. */
export interface Level {
  readonly source: Source
  readonly outputs: Output[]
  readonly embeds: Embed[]
  readonly where: Where[]
  readonly order: Order[]
  limit?: number
  /** Place of the offset among the values. */
  offset?: number
}

/** The catalogue, and how much of a request's select is left to be planned. */
interface Planning {
  readonly catalog: Catalog
  left: number
}

export function planLevel(catalog: Catalog, source: Source, parts: readonly Part[]): Level {
  const select = parts.find(part => part.kind === 'select' && part.path.length === 0)
  const text = select?.kind === 'select' ? select.text : ''
  const planning = { catalog, left: maxOutputs }
  const level = levelOf(planning, source, parseSelect(text.trim() === '' ? '*' : text))
  for (const part of parts) place(catalog, level, part)
  return level
}

function levelOf(planning: Planning, source: Source, items: readonly SelectItem[]): Level {
  const level: Level = { source, outputs: [], embeds: [], where: [], order: [] }
  for (const item of items) addItem(planning, level, item)
  return level
}

function addItem(planning: Planning, level: Level, item: SelectItem): void {
  const { source, outputs } = level
  planning.left -= item.kind === 'star' ? source.columns.size : 1
  if (planning.left < 0) throw tooManyOutputs()
  if (item.kind === 'star') {
    for (const column of source.columns.values())
      outputs.push({ kind: 'value', name: column.name, value: { column, path: [] } })
    return
  }
  if (item.kind === 'embed') return addEmbed(planning, level, item)
  if (item.kind === 'count' || isBareCount(item, source)) {
    outputs.push({ kind: 'aggregate', name: item.alias ?? 'count', call: 'count', resultCast: item.cast })
    return
  }
  const value = resolve(source, item.field)
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
  else outputs.push({ kind: 'value', name, value, cast: item.cast })
}

/** `rel(count)` counted rows before aggregates had parentheses. */
const isBareCount = (item: SelectItem, source: Source) =>
  item.kind === 'field' &&
  item.field.column === 'count' &&
  item.field.path.length === 0 &&
  !item.aggregate &&
  !source.columns.has('count') &&
  !source.relation?.computed.has('count')

function addEmbed(planning: Planning, level: Level, item: SelectEmbed): void {
  const { relation } = level.source
  if (!relation)
    throw new Refusal(
      'PGRST200',
      `Could not find a relationship between '${level.source.name}' and '${item.relation}' in the schema cache`,
      {
        details: `'${level.source.name}' is no table or view, so no foreign key leads from it.`,
      },
    )
  const link = findLink(relation, item.relation, item.hint)
  const embed: Embed = {
    name: item.alias ?? item.relation,
    link,
    isInner: item.isInner,
    isSpread: item.isSpread,
    level: levelOf(planning, sourceOf(link), item.items),
  }
  level.embeds.push(embed)
  if (item.isSpread) {
    if (!link.isToOne && embed.level.outputs.some(output => output.kind === 'aggregate'))
      throw new Refusal('PGRST127', 'Feature not implemented', {
        details: 'Aggregates are not implemented for one-to-many or many-to-many spreads.',
      })
    level.outputs.push({ kind: 'spread', embed })
  } else if (item.items.length > 0) level.outputs.push({ kind: 'embed', name: embed.name, embed })
}

function sourceOf(link: Link): Source {
  if (link.kind === 'key') {
    const { target } = link.relationship
    return { name: target.name, columns: target.columns, relation: target }
  }
  return sourceOfRoutine(link.routine)
}

export const sourceOfRoutine = ({ name, columns, relation }: Routine): Source => ({
  name: relation?.name ?? name,
  columns,
  relation,
})

export function resolve({ name, columns, relation }: Source, { column, path }: Field): Value {
  const found = columns.get(column)
  if (found) return { column: found, path }
  const computed = relation?.computed.get(column)
  if (computed && computed.returns !== 'void' && !computed.isSet) return { computed, path }
  throw unknownColumn(name, column, columns.keys())
}

/** Puts a parameter where it belongs: at this level, or at the embedded relation its name leads to. */
function place(catalog: Catalog, top: Level, part: Part): void {
  if (part.kind === 'select' || part.kind === 'columns' || part.kind === 'on_conflict') return
  const level = part.path.reduce((above, name) => embedOf(above, name).level, top)
  if (part.kind === 'limit') level.limit = part.count
  else if (part.kind === 'offset') level.offset = part.slot
  else if (part.kind === 'condition') level.where.push(whereOf(catalog, level, part.condition))
  else if (part.kind === 'order')
    level.order.push(...parseOrder(part.text, part.slot).map(term => orderOf(catalog, level, term)))
}

function orderOf(catalog: Catalog, level: Level, { relation, field, ...rest }: OrderTerm): Order {
  const embed = relation === undefined ? undefined : embedOf(level, relation)
  if (embed && !embed.link.isToOne)
    throw new Refusal('PGRST118', `A related order on '${relation}' is not possible`, {
      details: `'${level.source.name}' and '${relation}' do not form a many-to-one or one-to-one relationship`,
    })
  const value = resolve(embed?.level.source ?? level.source, field)
  if (rest.metric) needVectors(catalog, field, value)
  return { value, embed, ...rest }
}

function embedOf(level: Level, name: string): Embed {
  const embed = level.embeds.find(each => each.name === name)
  if (embed) return embed
  throw new Refusal('PGRST108', `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter, under its alias if it has one.`,
  })
}

function whereOf(catalog: Catalog, level: Level, condition: Condition): Where {
  if (condition.kind === 'group')
    return { ...condition, conditions: condition.conditions.map(each => whereOf(catalog, level, each)) }
  const { field, operator, isNegated, truth } = condition
  const embed = field.path.length === 0 && level.embeds.find(each => each.name === field.column)
  if (embed && operator === 'is' && truth === 'null') return { kind: 'exists', embed, isNegated: !isNegated }
  if (embed && !level.source.columns.has(field.column))
    throw new Refusal('PGRST120', `Bad operator on the '${field.column}' embedded resource`, {
      hint: 'Only is null or not is null filters are allowed on embedded resources',
    })
  const value = resolve(level.source, field)
  if (operator === 'l2' || operator === 'cosine' || operator === 'ip') needVectors(catalog, field, value)
  return { kind: 'test', value, test: condition }
}

const vectorType = /(?:^|\.)"?vector"?(?:\(\d+\))?$/

function needVectors(catalog: Catalog, { column }: Field, value: Value): void {
  if (catalog.extension('vector') === undefined)
    throw new Refusal(
      'PGRST100',
      'Distances of vectors need the extension "vector", which this project does not have',
      { hint: 'create extension vector with schema extensions; the server must have pgvector installed.' },
    )
  const type = value.computed?.type ?? value.column?.type ?? ''
  if (value.path.length > 0 || !vectorType.test(type))
    throw new Refusal('PGRST100', `The column "${column}" holds no vectors`, {
      hint: 'l2, cosine and ip compare columns of the type vector.',
    })
}
