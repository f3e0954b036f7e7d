import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dueOf, type Measured, megabyte, relisted } from './database-sizes.ts'

const measured = (index: number, fields: Partial<Measured> = {}): Measured => ({
  id: `id${index}`,
  ref: `ref${index}`,
  limitBytes: 100 * megabyte,
  bytes: 10 * megabyte,
  measuredAt: 0,
  notBefore: 0,
  ...fields,
})
const many = (length: number, fields?: (index: number) => Partial<Measured>) =>
  Array.from({ length }, (_, index) => measured(index, fields?.(index)))
const ids = (projects: readonly Measured[]) => projects.map(({ id }) => id)
const none = new Set<string>()

test('database sizes: a check measures two of 10,000 idle projects and twenty of 10,000 busy ones', () => {
  const projects = many(10_000)
  assert.equal(dueOf(projects, none, 60_000).length, 2)
  assert.equal(dueOf(projects, new Set(projects.map(({ ref }) => ref)), 60_000).length, 20)
})

test('database sizes: busy projects and those over their limit are due after two seconds, idle ones after a minute', () => {
  const projects = many(3, index => (index === 1 ? { bytes: 101 * megabyte } : {}))
  assert.deepEqual(ids(dueOf(projects, new Set(['ref0']), 1999)), [])
  assert.deepEqual(ids(dueOf(projects, new Set(['ref0']), 2000)), ['id0', 'id1'])
  assert.deepEqual(ids(dueOf(projects, new Set(['ref0']), 60_000)), ['id0', 'id1', 'id2'])
})

test('database sizes: busy projects do not wait for idle ones', () => {
  const projects = many(1000)
  const due = ids(dueOf(projects, new Set(['ref999']), 60_000))
  assert.equal(due[0], 'id999')
  assert.equal(due.length, 3)
})

test('database sizes: a database that is slow to measure is measured less often', () => {
  const projects = many(1, () => ({ notBefore: 40_000 }))
  assert.deepEqual(dueOf(projects, new Set(['ref0']), 39_999), [])
  assert.equal(dueOf(projects, new Set(['ref0']), 40_000).length, 1)
})

test('database sizes: new projects and changed limits are measured first, and a project without the quota is dropped', () => {
  const known = new Map(many(3).map(each => [each.id, each]))
  const rows = [
    { id: 'id0', ref: 'ref0', limit: '100' },
    { id: 'id2', ref: 'ref2', limit: '5' },
    { id: 'new', ref: 'refnew', limit: '0' },
  ]
  const next = relisted(known, rows)
  assert.deepEqual([...next.keys()], ['id2', 'new', 'id0'])
  assert.deepEqual(ids(dueOf(next.values(), none, 1)), ['id2', 'new'])
  // Until it is measured again the old size counts against the new limit.
  assert.equal(next.get('id2')?.bytes, 10 * megabyte)
})
