// An HTTP request, and the conversion of a read into one.
import type { Who } from './markers.ts'
import {
  type Condition,
  type Embed,
  type Field,
  type Item,
  keyOf,
  type Order,
  type Query,
  type Read,
  type Test,
} from './query.ts'
import { quoted } from './values.ts'

export interface Wire {
  who: Who
  method: string
  /** The path below the project, such as `people` or `rpc/add`, without encoding. */
  path: string
  params: readonly (readonly [name: string, value: string])[]
  headers: Readonly<Record<string, string>>
  body?: string
  /** The exact path and query of a mutated request. */
  target?: string
}

export function targetOf({ path, params, target }: Wire): string {
  if (target !== undefined) return target
  const query = params.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&')
  return path.split('/').map(encode).join('/') + (query && `?${query}`)
}

/** Encodes like the clients do, and accepts lone surrogates. */
const encode = (text: string) =>
  encodeURIComponent(text.toWellFormed()).replace(/%(2C|3A|24|2A)/gi, code => decodeURIComponent(code))

/** A readable description of the request, for reports. */
export function describe(wire: Wire): string {
  const headers = Object.entries(wire.headers).map(([name, value]) => `\n  ${name}: ${value}`)
  const body = wire.body === undefined ? '' : `\n  ${wire.body.slice(0, 2000)}`
  return `${wire.method} ${targetOf(wire)} as ${wire.who}${headers.join('')}${body}`
}

export function writeRead(read: Read): Wire {
  const { query, call } = read
  const prefer = read.count ? { prefer: `count=${read.count}` } : {}
  const isPost = read.method === 'POST'
  const args = call && !isPost ? Object.entries(call.args) : []
  return {
    who: read.who,
    method: read.method,
    path: call ? `rpc/${call.name}` : query.table.name,
    params: [...args, ...selectParam(query), ...queryParams(query, '')],
    headers: {
      ...prefer,
      ...accepted[read.shape],
      ...(read.range && { 'range-unit': 'items', range: read.range.join('-') }),
      ...(isPost && { 'content-type': 'application/json' }),
    },
    ...(isPost && { body: JSON.stringify(call?.args) }),
  }
}

const accepted: Record<Read['shape'], Record<string, string>> = {
  array: {},
  object: { accept: 'application/vnd.pgrst.object+json' },
  stripped: { accept: 'application/vnd.pgrst.array+json;nulls=stripped' },
}

type Param = readonly [string, string]

const selectParam = ({ select }: Query): Param[] =>
  select.length === 0 ? [] : [['select', select.map(itemText).join(',')]]

function itemText(item: Item): string {
  if (item.is === 'all') return '*'
  const alias = item.alias === undefined ? '' : `${item.alias}:`
  if (item.is === 'field') return `${alias}${fieldText(item.field)}${item.cast ? `::${item.cast}` : ''}`
  if (item.is === 'embed') return embedText(item, alias)
  // `count` without parentheses is an old form that clients still use.
  return item.field ? `${alias}${fieldText(item.field)}.${item.with}()` : `${alias}count${alias ? '()' : ''}`
}

function embedText({ spelling, join, isSpread, isSilent, query }: Embed, alias: string): string {
  const inner = isSilent ? '' : query.select.map(itemText).join(',')
  return `${isSpread ? '...' : ''}${alias}${spelling}${join ? `!${join}` : ''}(${inner})`
}

/** All parameters except `select`, followed by those of the embeds. */
function queryParams(query: Query, prefix: string): Param[] {
  const { where, order, limit, offset, select } = query
  const embeds = select.filter(item => item.is === 'embed')
  return [
    ...where.map(each => flatCondition(each, prefix)),
    ...(order.length > 0 ? [[`${prefix}order`, order.map(orderText).join(',')] as const] : []),
    ...(limit === undefined ? [] : [[`${prefix}limit`, String(limit)] as const]),
    ...(offset === undefined ? [] : [[`${prefix}offset`, String(offset)] as const]),
    ...embeds.flatMap(embed => queryParams(embed.query, `${prefix}${nameText(keyOf(embed))}.`)),
  ]
}

const orderText = ({ field, through, direction, nulls }: Order) =>
  [
    through ? `${nameText(keyOf(through))}(${fieldText(field)})` : fieldText(field),
    ...(direction ? [direction] : []),
    ...(nulls ? [`nulls${nulls}`] : []),
  ].join('.')

const nameText = (name: string) => (/^\w+$/.test(name) ? name : quoted(name))
const fieldText = ({ column, path }: Field) =>
  nameText(column.name) + path.map(({ arrow, key }) => arrow + key).join('')

function flatCondition(condition: Condition, prefix: string): Param {
  if (condition.is === 'presence')
    return [`${prefix}${nameText(keyOf(condition.embed))}`, condition.isNull ? 'is.null' : 'not.is.null']
  if (condition.is === 'group') {
    const not = condition.isNot ? 'not.' : ''
    return [`${prefix}${not}${condition.joiner}`, `(${condition.of.map(nestedCondition).join(',')})`]
  }
  return [prefix + flatName(condition.field), operation(condition, text => text)]
}

/** A column with the name of a parameter must be quoted. */
const flatName = (field: Field) =>
  field.column.name === 'select' ? quoted(field.column.name) : fieldText(field)

function nestedCondition(condition: Condition): string {
  if (condition.is === 'presence')
    return `${nameText(keyOf(condition.embed))}.${condition.isNull ? 'is.null' : 'not.is.null'}`
  if (condition.is === 'group')
    return `${condition.isNot ? 'not.' : ''}${condition.joiner}(${condition.of.map(nestedCondition).join(',')})`
  return `${fieldText(condition.field)}.${operation(condition, listed)}`
}

/** In lists and groups, values with special characters must be quoted. */
const listed = (text: string) => (/^[\w-]+$/.test(text) || /^\{[\w,]+\}$/.test(text) ? text : quoted(text))

function operation(
  { isNot, operator, quantifier, language, value }: Test,
  protect: (text: string) => string,
) {
  const modifier = quantifier ?? language
  const name = `${isNot ? 'not.' : ''}${operator}${modifier ? `(${modifier})` : ''}`
  const written = typeof value === 'string' ? protect(value) : `(${value.map(listed).join(',')})`
  return `${name}.${written}`
}
