// No step over all objects of a schema holds the event loop: the work yields in proportion to the objects and dependencies.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce, type Sliced } from '#src/kernel/slices.ts'
import { sorted } from './collections.ts'
import { hasName } from './column-changes.ts'
import type { Definition, TableColumn } from './definitions-store.ts'
import { inDependencyOrder } from './dependency-order.ts'
import { neededBy, removedWith } from './dependents.ts'
import { differenceScript } from './difference.ts'
import { enumChange } from './enum-changes.ts'
import { grantChanges, grantStatements } from './grants.ts'
import type { ObjectGrants } from './grants-store.ts'
import { renameRoles, type Schema, scriptFrom } from './schema.ts'
import { includes, replaceAll, sliceCharacters } from './text-search.ts'

function slicesOf<T>(work: Sliced<T>): { slices: number; result: T } {
  for (let slices = 1; ; slices++) {
    const { done, value } = work.next()
    if (done) return { slices, result: value }
  }
}

const count = 100
const table = (place: number): Definition => ({
  id: `pg_class:${place}`,
  rank: 5,
  name: `public.t${String(place).padStart(6, '0')}`,
  sql: `create table public.t${place} (\n)`,
  undo: `drop table public.t${place}`,
})
const view = (place: number): Definition => ({
  ...table(place + 1_000_000),
  rank: 7,
  name: `public.v${String(place).padStart(6, '0')}`,
  sql: `create view public.v${place} as\n select 1`,
  undo: `drop view public.v${place}`,
})
const tables = Array.from({ length: count }, (_, place) => table(place))
const views = Array.from({ length: count }, (_, place) => view(place))
/** Each view depends on each table. */
const needs = views.flatMap(({ id: from }) => tables.map(({ id: to }) => ({ from, to, columns: ['a'] })))
const edges = needs.length
/** Units of work in one slice. */
const largest = 1000

const empty: Schema = {
  definitions: [],
  needs: [],
  columns: [],
  grants: { objects: [], columns: [], defaults: [] },
  omitted: [],
  canSetExpression: true,
}

test('slices: the dependency order yields for each thousand dependencies', () => {
  const { slices, result } = slicesOf(inDependencyOrder([...views, ...tables].toReversed(), needs))
  assert.ok(slices > (3 * edges) / largest, `${slices}`)
  assert.deepEqual(
    result.map(({ id }) => id),
    [...tables, ...views].map(({ id }) => id),
  )
  const cycle = [
    { from: views[0]!.id, to: views[1]!.id },
    { from: views[1]!.id, to: views[0]!.id },
    { from: tables[0]!.id, to: views[1]!.id },
  ]
  const first = atOnce(inDependencyOrder([views[0]!, views[1]!, tables[0]!], cycle))
  assert.deepEqual(
    first.map(({ id }) => id),
    [views[0]!.id, views[1]!.id, tables[0]!.id],
  )
})

test('slices: what depends on what is found in slices', () => {
  const schema = { definitions: [...tables, ...views], needs }
  const needed = slicesOf(neededBy(schema, [views[0]!.id, views[1]!.id]))
  assert.equal(needed.result.size, count)
  assert.ok(needed.slices > edges / largest, `${needed.slices}`)
  const removed = slicesOf(
    removedWith(
      schema,
      tables.map(({ id }) => id),
      new Map(),
      () => true,
    ),
  )
  assert.equal(removed.result.size, 2 * count)
  assert.ok(removed.slices > (2 * edges) / largest, `${removed.slices}`)
})

test('slices: schemas are compared and renamed in slices', () => {
  const definitions = Array.from({ length: 10_000 }, (_, place) => table(place))
  const columns = definitions.map(
    ({ id, name }): TableColumn => ({
      tableId: id,
      table: name,
      name: 'a',
      definition: 'a int',
      type: 'int',
      default: null,
      isNotNull: false,
      identity: null,
      generated: null,
      expression: null,
    }),
  )
  const objects = definitions.map(
    ({ id, name }): ObjectGrants => ({
      id,
      object: `table ${name}`,
      identityOf: null,
      actual: { anon: ['SELECT'], p_one_api: ['SELECT'] },
      expected: {},
    }),
  )
  const columnGrants = definitions.map(({ name }) => ({
    table: name,
    column: 'a',
    actual: { anon: ['UPDATE'] },
    isOfPlatform: false,
  }))
  const grants = { objects, columns: columnGrants, defaults: [] }
  const full: Schema = { ...empty, definitions, columns, grants, omitted: ['operator public.+'] }

  const renamed = slicesOf(renameRoles(full, { from: 'p_one', to: 'p_two' }))
  assert.ok(renamed.slices > 30, `${renamed.slices}`)
  assert.deepEqual(renamed.result.grants.objects[0]!.actual, { anon: ['SELECT'], p_two_api: ['SELECT'] })
  const same = slicesOf(differenceScript(full, renamed.result))
  assert.ok(same.slices > 100, `${same.slices}`)
  const gone = slicesOf(differenceScript(full, empty))
  assert.equal(gone.result.filter(each => each.startsWith('\ndrop table')).length, definitions.length)
  assert.ok(gone.slices > 60, `${gone.slices}`)
  const created = { hasObject: () => false, hasColumn: () => false }
  assert.ok(slicesOf(grantChanges(grants, grants, created)).slices > 50)
  assert.ok(slicesOf(grantStatements(grants)).slices > 20)
  assert.ok(slicesOf(scriptFrom(Array(10_000).fill('select 1'), [])).slices > 9)
})

test('slices: labels of an enum are compared in slices, and in one pass', () => {
  const withLabels = (labels: readonly number[]): Definition => ({
    id: 'pg_type:1',
    rank: 2,
    name: 'public.size',
    sql: `create type public.size as enum (${labels.map(label => `'${label}'`).join(', ')})`,
    undo: 'drop type public.size',
  })
  const labels = Array.from({ length: 20_000 }, (_, place) => place)
  const even = labels.filter(label => label % 2 === 0)
  const { slices, result } = slicesOf(enumChange(withLabels(even), withLabels(labels)))
  assert.deepEqual(result!.statements.slice(0, 2), [
    `alter type public.size add value '1' after '0'`,
    `alter type public.size add value '3' after '2'`,
  ])
  assert.equal(result!.labels.length, 10_000)
  assert.ok(slices > 50, `${slices}`)
  const odd = labels.filter(label => label % 2 === 1)
  const begin = atOnce(enumChange(withLabels(odd), withLabels([0, ...odd])))
  assert.deepEqual(begin!.statements, [`alter type public.size add value '0' before '1'`])
  assert.equal(atOnce(enumChange(withLabels([1, 2]), withLabels([2, 1, 3]))), undefined)
  assert.equal(atOnce(enumChange(withLabels([1, 2]), withLabels([1]))), undefined)
})

test('slices: sorting is stable and yields for each thousand items', () => {
  const items = Array.from({ length: 10_500 }, (_, place) => ({ key: (place * 7919) % 501, place }))
  const byNumber = (a: { key: number }, b: { key: number }) => a.key - b.key
  const { slices, result } = slicesOf(sorted(items, byNumber))
  assert.deepEqual(result, items.toSorted(byNumber))
  assert.ok(slices > 40, `${slices}`)
  assert.deepEqual(atOnce(sorted([], byNumber)), [])
})

test('slices: long texts are searched in slices, also across their ends', () => {
  const before = 'a'.repeat(sliceCharacters - 2)
  const text = `${before}p_one${before}p_one${'b'.repeat(sliceCharacters)}`
  const found = slicesOf(replaceAll(text, 'p_one', 'p_two'))
  assert.equal(found.result, text.replaceAll('p_one', 'p_two'))
  assert.ok(found.slices > 3, `${found.slices}`)
  assert.ok(atOnce(includes(text, 'p_one')))
  assert.ok(atOnce(includes(`${before}p_one`, 'p_one')))
  const missing = slicesOf(includes(text, 'p_two'))
  assert.deepEqual([missing.result, missing.slices], [false, 4])
})

test('slices: names in an expression are found, and not in its literals', () => {
  const names = (expression: string) => {
    const found: string[] = []
    atOnce(
      hasName(expression, name => {
        found.push(name)
        return false
      }),
    )
    return found
  }
  assert.deepEqual(names(`(a || 'b ''c "' || "d ""e" || '"' || f)`), ['a', '"d ""e"', 'f'])
  const { slices } = slicesOf(hasName('a + '.repeat(100_000), name => name === 'b'))
  assert.ok(slices > 20, `${slices}`)
})
