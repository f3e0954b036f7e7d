// From the parameters of a query string to the query that planning takes.
import { Refusal } from '#src/kernel/errors.ts'
import type { RowsQuery } from '#src/query/items.ts'
import { parseOrder } from './order.ts'
import { Reader } from './reader.ts'
import type { Parameter } from './scan.ts'
import { type ParsedRows, parseSelect, rowsWith } from './select.ts'

export function rowsQuery(parameters: readonly Parameter[]): RowsQuery {
  const select = textOf(parameters, 'select') ?? ''
  const rows = rowsWith(parseSelect(select.trim() === '' ? '*' : select))
  const embeds: EmbedIndex = new Map()
  for (const parameter of parameters) add(rows, embeds, parameter)
  return rows
}

/** Embedded rows by name. A request may have 2000 items in its select and 1000 filters on one of them. */
type EmbedIndex = Map<ParsedRows, ReadonlyMap<string, ParsedRows>>

/** Adds a parameter to the rows it belongs to: those of the request, or those of an embedded relation. */
function add(top: ParsedRows, embeds: EmbedIndex, parameter: Parameter): void {
  const rows = () => parameter.path.reduce((above, name) => embeddedRows(embeds, above, name), top)
  if (parameter.kind === 'limit') rows().limit = parameter.count
  else if (parameter.kind === 'offset') rows().offset = parameter.slot
  else if (parameter.kind === 'condition') rows().where.push(parameter.condition)
  else if (parameter.kind === 'order') rows().order.push(...parseOrder(parameter.text, parameter.slot))
}

function embeddedRows(embeds: EmbedIndex, above: ParsedRows, name: string): ParsedRows {
  const byName = embeds.get(above) ?? rowsByName(above)
  embeds.set(above, byName)
  const rows = byName.get(name)
  if (!rows) throw notEmbedded(name)
  return rows
}

/** Of embedded relations with the same name, the first. */
function rowsByName({ select }: ParsedRows): Map<string, ParsedRows> {
  const byName = new Map<string, ParsedRows>()
  for (const item of select) {
    if (item.kind !== 'embed') continue
    const name = item.alias ?? item.relation
    if (!byName.has(name)) byName.set(name, item.query)
  }
  return byName
}

export const notEmbedded = (name: string) =>
  new Refusal('PGRST108', `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter, under its alias if it has one.`,
  })

/** The names in `columns` or `on_conflict`. Undefined without the parameter, or with an empty `columns`. */
export function namesIn(
  parameters: readonly Parameter[],
  kind: 'columns' | 'on_conflict',
): string[] | undefined {
  const text = textOf(parameters, kind)
  if (text === undefined || (text === '' && kind === 'columns')) return
  if (text.trim() === '') return []
  const reader = new Reader(text, kind)
  const names = new Set<string>()
  do names.add(reader.name())
  while (reader.take(','))
  if (!reader.isAtEnd) reader.fail('expecting "," or the end')
  return [...names]
}

function textOf(
  parameters: readonly Parameter[],
  kind: 'select' | 'columns' | 'on_conflict',
): string | undefined {
  const parameter = parameters.find(each => each.kind === kind && each.path.length === 0)
  return parameter && 'text' in parameter ? parameter.text : undefined
}
