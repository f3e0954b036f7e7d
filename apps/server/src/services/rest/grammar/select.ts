// The grammar of `select`: columns, JSON paths, casts, aggregates, embedded and spread relations.
import { Refusal } from '#src/kernel/errors.ts'
import type { Aggregate, Condition, OrderTerm, SelectField, SelectItem } from '#src/query/items.ts'
import { maxOutputs } from '#src/query/plan.ts'
import { readPath } from './field.ts'
import { Reader } from './reader.ts'

/** A `RowsQuery` while other parameters are added to it. */
export interface ParsedRows {
  readonly select: readonly ParsedItem[]
  readonly where: Condition[]
  readonly order: OrderTerm[]
  limit?: number
  offset?: number
}
export type ParsedEmbed = SelectItem & { readonly kind: 'embed'; readonly query: ParsedRows }
export type ParsedItem = Exclude<SelectItem, { readonly kind: 'embed' }> | ParsedEmbed

export const rowsWith = (select: readonly ParsedItem[]): ParsedRows => ({ select, where: [], order: [] })

const maxDepth = 5
const maxEmbeds = 200
/** Postgres truncates longer names, so that two of them may become the same. */
const longestName = 63
const typeName = /[A-Za-z0-9_$]+(?: +[A-Za-z0-9_$]+)*/y
const aggregateCall = /\.(sum|avg|count|max|min)\(\)/y

export function parseSelect(text: string): ParsedItem[] {
  const reader = new SelectReader(text)
  const items = readItems(reader, 0)
  if (!reader.isAtEnd) reader.fail('expecting "," or the end')
  return items
}

/** Limits the number of items and embeds. */
class SelectReader extends Reader {
  #items = 0
  #embeds = 0

  constructor(text: string) {
    super(text, 'select parameter')
  }

  countItem(): void {
    if (++this.#items > maxOutputs) throw tooManyOutputs(maxOutputs)
  }

  countEmbed(): void {
    if (++this.#embeds > maxEmbeds)
      throw new Refusal('PGRST100', `The select asks for more than ${maxEmbeds} embedded relations`)
  }
}

export const tooManyOutputs = (max: number) =>
  new Refusal('PGRST100', `The select asks for more than ${max} columns and relations`)

function readItems(reader: SelectReader, depth: number): ParsedItem[] {
  if (depth > maxDepth)
    throw new Refusal('PGRST204', `Embedded relations nest at most ${maxDepth} levels deep`, {
      hint: 'Ask for the deeper rows in a request of their own.',
    })
  const items: ParsedItem[] = []
  reader.skipSpace()
  if (reader.isAtEnd || reader.startsWith(')')) return items
  do {
    items.push(readItem(reader, depth))
    reader.skipSpace()
  } while (reader.take(','))
  return items
}

function readItem(reader: SelectReader, depth: number): ParsedItem {
  reader.countItem()
  reader.skipSpace()
  if (reader.take('*')) return { kind: 'star' }
  if (reader.take('...')) {
    const { alias, name } = readAliased(reader)
    return readEmbed(reader, name, alias, true, depth)
  }
  const { alias, name } = readAliased(reader)
  if (name === 'count' && reader.take('()'))
    return { kind: 'count', ...withAlias(alias), ...readCast(reader) }
  if (reader.startsWith('!') || reader.startsWith('(')) return readEmbed(reader, name, alias, false, depth)
  return readSelectField(reader, name, alias)
}

function readSelectField(reader: Reader, column: string, alias: string | undefined): SelectField {
  const start = reader.at
  const path = readPath(reader)
  if (alias === undefined && typeof path.at(-1)?.key === 'number') {
    reader.at = start
    reader.fail('a path that ends in an index needs an alias, such as first:tags->0')
  }
  const item = { kind: 'field' as const, ...withAlias(alias), field: { column, path }, ...readCast(reader) }
  const call = reader.match(aggregateCall)
  // `rel(count)` counted rows before aggregates had parentheses.
  if (!call) return column === 'count' && path.length === 0 ? { ...item, isCountByDefault: true } : item
  const { cast } = readCast(reader)
  const aggregate = call.slice(1, -2) as Aggregate
  return { ...item, aggregate, ...(cast && { aggregateCast: cast }) }
}

function readAliased(reader: Reader): { alias?: string; name: string } {
  const first = reader.name()
  reader.skipSpace()
  if (!reader.startsWith(':') || reader.startsWith('::')) return { name: first }
  reader.take(':')
  if (Buffer.byteLength(first) > longestName) reader.fail(`an alias has at most ${longestName} bytes`)
  const name = reader.name()
  reader.skipSpace()
  return { alias: first, name }
}

const withAlias = (alias: string | undefined) => (alias === undefined ? {} : { alias })

function readCast(reader: Reader): { cast?: string } {
  if (!reader.take('::')) return {}
  const cast = reader.match(typeName)
  if (!cast) reader.fail('expecting the name of a type')
  return { cast }
}

function readEmbed(
  reader: SelectReader,
  relation: string,
  alias: string | undefined,
  isSpread: boolean,
  depth: number,
): ParsedEmbed {
  reader.countEmbed()
  let hint: string | undefined
  let isInner = false
  while (reader.take('!')) {
    const word = reader.name()
    if (word === 'inner') isInner = true
    else if (word !== 'left') hint = word
  }
  reader.need('(')
  const items = readItems(reader, depth + 1)
  reader.need(')')
  return {
    kind: 'embed',
    ...withAlias(alias),
    relation,
    ...(hint !== undefined && { hint }),
    isInner,
    isSpread,
    query: rowsWith(items),
  }
}
