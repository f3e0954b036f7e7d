// Shrinks a failing request by removing one part at a time, as long as it still fails.

import { type Case, changeCase, readCase } from './cases.ts'
import type { Change } from './changes.ts'
import type { Condition, Embed, Item, Query, Read } from './query.ts'
import { targetOf, type Wire } from './wire.ts'

const maxTries = 150

export async function shrunk(failing: Case, stillFails: (shorter: Case) => Promise<boolean>): Promise<Case> {
  let smallest = failing
  let tries = 0
  for (let isShorter = true; isShorter; ) {
    isShorter = false
    for (const candidate of shorter(smallest)) {
      if (tries++ >= maxTries) return smallest
      if (targetOf(candidate.wire).length > targetOf(smallest.wire).length) continue
      if (!(await stillFails(candidate))) continue
      smallest = candidate
      isShorter = true
      break
    }
  }
  return smallest
}

function shorter({ wire, read, change }: Case): Generator<Case> {
  if (read) return shorterReads(read)
  return change ? shorterChanges(change) : shorterWires(wire)
}

function* shorterChanges(change: Change): Generator<Case> {
  const { onConflict, rows, where, select } = change
  if (change.isCounted) yield changeCase({ ...change, isCounted: false })
  if (onConflict) {
    const { onConflict: _, ...plain } = change
    yield changeCase(plain)
  }
  for (const at of where.keys())
    if (where.length > 1) yield changeCase({ ...change, where: where.toSpliced(at, 1) })
  for (const at of rows.keys())
    if (rows.length > 1) yield changeCase({ ...change, rows: rows.toSpliced(at, 1) })
  for (const name of change.columns.slice(1))
    yield changeCase({
      ...change,
      columns: change.columns.filter(each => each !== name),
      rows: rows.map(({ [name]: _, ...rest }) => rest),
    })
  for (const at of select.keys())
    if (select.length > 1) yield changeCase({ ...change, select: select.toSpliced(at, 1) })
}

function* shorterReads(read: Read): Generator<Case> {
  const { count, range, call } = read
  const plain: Read[] = [
    ...(count ? [{ ...read, count: undefined }] : []),
    ...(range ? [{ ...read, range: undefined }] : []),
    ...(call ? [{ ...read, call: undefined, method: 'GET' as const }] : []),
    ...(read.shape === 'array' ? [] : [{ ...read, shape: 'array' as const }]),
  ] as Read[]
  for (const each of plain) yield readCase(each)
  for (const query of shorterQueries(read.query)) yield readCase({ ...read, query })
}

function* shorterQueries(query: Query): Generator<Query> {
  const { limit, offset, ...unpaged } = query
  if (limit !== undefined || offset !== undefined) yield unpaged
  if (query.where.length > 1) yield { ...query, where: [] }
  for (const at of query.where.keys()) {
    const condition = query.where[at]!
    yield { ...query, where: query.where.toSpliced(at, 1) }
    if (condition.is !== 'group') continue
    for (const inner of condition.of) yield { ...query, where: query.where.with(at, inner) }
    for (const gone of condition.of.keys())
      if (condition.of.length > 1)
        yield { ...query, where: query.where.with(at, { ...condition, of: condition.of.toSpliced(gone, 1) }) }
  }
  for (const at of query.order.keys())
    if (at < query.order.length - 1 || unpaged === query)
      yield { ...query, order: query.order.toSpliced(at, 1) }
  yield* withShorterItems(query)
}

/** An item can be removed if no filter and no order refers to it. */
function* withShorterItems(query: Query): Generator<Query> {
  for (const at of query.select.keys()) {
    const item = query.select[at]!
    const isNeeded =
      query.order.some(({ through }) => through === item) || query.where.some(each => speaksOf(each, item))
    if (query.select.length > 1 && !isNeeded) yield { ...query, select: query.select.toSpliced(at, 1) }
    if (item.is !== 'embed') continue
    for (const inner of shorterQueries(item.query)) yield withEmbed(query, item, { ...item, query: inner })
    const { alias, join, ...bare } = item
    if (join) yield withEmbed(query, item, alias === undefined ? bare : { ...bare, alias })
  }
}

const speaksOf = (condition: Condition, item: Item): boolean =>
  condition.is === 'presence'
    ? condition.embed === item
    : condition.is === 'group' && condition.of.some(each => speaksOf(each, item))

/** Replaces an embed by another one in all references. */
function withEmbed(query: Query, old: Embed, embed: Embed): Query {
  const inCondition = (condition: Condition): Condition => {
    if (condition.is === 'presence') return condition.embed === old ? { ...condition, embed } : condition
    return condition.is === 'group' ? { ...condition, of: condition.of.map(inCondition) } : condition
  }
  return {
    ...query,
    select: query.select.map(item => (item === old ? embed : item)),
    where: query.where.map(inCondition),
    order: query.order.map(order => (order.through === old ? { ...order, through: embed } : order)),
  }
}

function* shorterWires(wire: Wire): Generator<Case> {
  for (const at of wire.params.keys()) yield { wire: { ...wire, params: wire.params.toSpliced(at, 1) } }
  for (const name of Object.keys(wire.headers)) {
    const { [name]: _, ...headers } = wire.headers
    yield { wire: { ...wire, headers } }
  }
  if (wire.target !== undefined) {
    const { target, ...whole } = wire
    yield { wire: whole }
    const parts = target.split('&')
    for (const at of parts.keys()) yield { wire: { ...wire, target: parts.toSpliced(at, 1).join('&') } }
    return
  }
  for (const [at, [name, value]] of wire.params.entries())
    for (const shorter of halves(value))
      yield { wire: { ...wire, params: wire.params.with(at, [name, shorter]) } }
  if (wire.body !== undefined) for (const body of halves(wire.body)) yield { wire: { ...wire, body } }
}

/** The text without its first or last half, a quarter, or one character at either end. */
function halves(text: string): string[] {
  if (text.length < 2) return []
  const size = text.length
  const cuts = [size >> 1, size >> 2, 1].filter(cut => cut > 0)
  return cuts.flatMap(cut => [
    text.slice(cut),
    text.slice(0, -cut),
    text.slice(0, (size - cut) >> 1) + text.slice((size + cut) >> 1),
  ])
}
