import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce, type Sliced } from '#src/kernel/slices.ts'
import type { Catalog } from './catalog.ts'
import { maxFactBytes, readFacts, sliceBytes } from './catalog-facts.ts'
import { catalogFrom, maxOverloads, sliceSize } from './catalog-from.ts'

type Row = [Buffer, Buffer]
const row = (kind: string, value: unknown): Row => [Buffer.from(kind), Buffer.from(JSON.stringify(value))]

const tables = (count: number, columns: number): Row[] => [
  row('version', 7),
  ...Array.from({ length: count }, (_, oid) =>
    row('relation', { oid, schema: 'public', name: `t${oid}`, kind: 'r', type: oid + 1_000_000 }),
  ),
  ...Array.from({ length: count }, (_, oid) =>
    row(
      'columns',
      Array.from({ length: columns }, (_, at) => [oid, at + 1, `c${at}`, 'integer', 23, false, null]),
    ),
  ),
  ...Array.from({ length: count }, (_, oid) => row('key', [oid, true, [1]])),
]

function counted<T>(work: Sliced<T>): { slices: number; result: T } {
  for (let slices = 1; ; slices++) {
    const { done, value } = work.next()
    if (done) return { slices, result: value }
  }
}

test('catalogue: facts become tables with their columns and keys', () => {
  const catalog: Catalog = atOnce(catalogFrom(atOnce(readFacts(tables(3, 2))), ['public']))
  assert.equal(catalog.version, 7)
  assert.deepEqual(catalog.relationNames('public'), ['t0', 't1', 't2'])
  const relation = catalog.relation('public', 't1')!
  assert.deepEqual([...relation.columns.keys()], ['c0', 'c1'])
  assert.deepEqual(relation.primaryKey, ['c0'])
})

test('catalogue: a slice parses at most its number of bytes and one fact', () => {
  const rows = tables(2000, 20)
  const bytes = rows.reduce((sum, [, value]) => sum + value.length, 0)
  const longest = Math.max(...rows.map(([, value]) => value.length))
  const { slices } = counted(readFacts(rows))
  assert.ok(slices >= bytes / (sliceBytes + longest), `${slices} slices of ${bytes} bytes`)
})

test('catalogue: a slice builds at most its number of relations', () => {
  const facts = atOnce(readFacts(tables(5000, 1)))
  const { slices, result } = counted(catalogFrom(facts, ['public']))
  assert.ok(slices >= 5000 / sliceSize, `${slices} slices`)
  assert.equal(result.relationNames('public').length, 5000)
})

test('catalogue: a schema over the limit is rejected before the rest of it is parsed', () => {
  const column = [0, 1, 'x'.repeat(1024 * 1024), 'text', 25, false, null]
  const rows = Array.from({ length: 100 }, () => row('columns', [column]))
  let read = 0
  const watched = new Proxy(rows, {
    get(target, key) {
      if (typeof key === 'string' && /^\d+$/.test(key)) read++
      return Reflect.get(target, key)
    },
  })
  assert.throws(() => atOnce(readFacts(watched)), /more than 16 MB/)
  assert.ok(read <= maxFactBytes / 1024 / 1024 + 1, `${read} facts were read`)
})

const overload = (index: number) =>
  row('function', {
    schema: 'public',
    name: 'f',
    argNames: [`a${index}`],
    argTypes: ['integer'],
    argOids: [23],
    defaults: 0,
    returns: 'integer',
    returnKind: 'b',
    returnRelation: 0,
    volatility: 'v',
  })

test('catalogue: a limited number of overloads is offered', () => {
  const facts = [...tables(1, 1), ...Array.from({ length: maxOverloads + 5 }, (_, index) => overload(index))]
  const catalog = atOnce(catalogFrom(atOnce(readFacts(facts)), ['public']))
  assert.equal(catalog.functions('public', 'f').length, maxOverloads)
})

test('catalogue: casts and handlers are read in slices', () => {
  const many = 20_000
  const slicesWith = (facts: Row[]) =>
    counted(catalogFrom(atOnce(readFacts([...tables(1, 1), ...facts])), ['public'])).slices
  const casts = Array.from({ length: many }, (_, at) =>
    row('representation', [at, 'to', 'json', 'public', 'f']),
  )
  const handlers = Array.from({ length: many }, (_, at) =>
    row('handler', { schema: 'public', name: 'f', mediaType: `a/${at}`, relation: 0, isBinary: false }),
  )
  assert.ok(slicesWith(casts) >= 4)
  assert.ok(slicesWith(handlers) >= 4)
})
