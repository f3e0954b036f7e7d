// The grammar of `select`: columns, JSON paths, casts, aggregates, embedded and spread relations.
import { Refusal } from '#src/kernel/errors.ts'
import { type Field, readPath } from './field.ts'
import { Reader } from './reader.ts'

export type Aggregate = 'sum' | 'avg' | 'count' | 'max' | 'min'

export interface SelectField {
  readonly kind: 'field'
  readonly alias?: string
  readonly field: Field
  readonly cast?: string
  readonly aggregate?: Aggregate
  readonly aggregateCast?: string
}
/** `count()`: rows. */
export interface SelectCount {
  readonly kind: 'count'
  readonly alias?: string
  readonly cast?: string
}
export interface SelectEmbed {
  readonly kind: 'embed'
  readonly alias?: string
  readonly relation: string
  readonly hint?: string
  readonly isInner: boolean
  readonly isSpread: boolean
  readonly items: readonly SelectItem[]
}
export type SelectItem = { readonly kind: 'star' } | SelectField | SelectCount | SelectEmbed

const maxDepth = 5
/** What one request may ask to be shown, at all its levels: Postgres itself takes 1664 columns at one. */
export const maxOutputs = 2000
const maxEmbeds = 200
/** Postgres cuts what is longer, and two names may then be one. */
const longestName = 63
const typeName = /[A-Za-z0-9_$]+(?: +[A-Za-z0-9_$]+)*/y
const aggregateCall = /\.(sum|avg|count|max|min)\(\)/y

export function parseSelect(text: string): SelectItem[] {
  const reader = new SelectReader(text)
  const items = readItems(reader, 0)
  if (!reader.isAtEnd) reader.fail('expecting "," or the end')
  return items
}

/** Counts what is read. */
class SelectReader extends Reader {
  #items = 0
  #embeds = 0

  constructor(text: string) {
    super(text, 'select parameter')
  }

  countItem(): void {
    if (++this.#items > maxOutputs) throw tooManyOutputs()
  }

  countEmbed(): void {
    if (++this.#embeds > maxEmbeds)
      throw new Refusal('PGRST100', `The select asks for more than ${maxEmbeds} embedded relations`)
  }
}

export const tooManyOutputs = () =>
  new Refusal('PGRST100', `The select asks for more than ${maxOutputs} columns and relations`)

function readItems(reader: SelectReader, depth: number): SelectItem[] {
  if (depth > maxDepth)
    throw new Refusal('PGRST204', `Embedded relations nest at most ${maxDepth} levels deep`, {
      hint: 'Ask for the deeper rows in a request of their own.',
    })
  const items: SelectItem[] = []
  reader.skipSpace()
  if (reader.isAtEnd || reader.startsWith(')')) return items
  do {
    items.push(readItem(reader, depth))
    reader.skipSpace()
  } while (reader.take(','))
  return items
}

function readItem(reader: SelectReader, depth: number): SelectItem {
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
  if (alias === undefined && path.at(-1)?.isIndex) {
    reader.at = start
    reader.fail('a path that ends in an index needs an alias, such as first:tags->0')
  }
  const item = { kind: 'field' as const, ...withAlias(alias), field: { column, path }, ...readCast(reader) }
  const call = reader.match(aggregateCall)
  if (!call) return item
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
): SelectEmbed {
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
    items,
  }
}
