import assert from 'node:assert/strict'
import { test } from 'node:test'
import { closest, distance } from './closest.ts'

test('closest: finds the intended word of a typing mistake', () => {
  const words = ['start', 'stop', 'status', 'projects']
  assert.equal(closest('strat', words), 'start')
  assert.equal(closest('sttaus', words), 'status')
  assert.equal(closest('proj', words), 'projects')
  assert.equal(closest('PROJECTS', words), 'projects')
})

test('closest: finds nothing for an unrelated word', () => {
  assert.equal(closest('frobnicate', ['start', 'stop']), undefined)
  assert.equal(closest('x', []), undefined)
})

test('closest: swapping two letters counts as one edit', () => {
  assert.equal(distance('lsit', 'list'), 1)
  assert.equal(distance('', 'abc'), 3)
  assert.equal(distance('same', 'same'), 0)
})

/** The full table of edit distances, without a bound. */
function distanceByTable(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      row[j] = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, rows[i - 1]![j - 1]! + (same ? 0 : 1))
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) row[j] = Math.min(row[j]!, rows[i - 2]![j - 2]! + 1)
    }
    rows.push(row)
  }
  return rows[a.length]![b.length]!
}

test('closest: a bounded distance is exact up to its bound and is bound + 1 above it', () => {
  let state = 7
  const random = (limit: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * limit)
  }
  const word = () => Array.from({ length: random(9) }, () => 'abc'[random(3)]).join('')
  for (let run = 0; run < 20_000; run++) {
    const [a, b, most] = [word(), word(), random(5)]
    const all = distanceByTable(a, b)
    assert.equal(distance(a, b), all, `${a} ${b}`)
    assert.equal(distance(a, b, most), Math.min(all, most + 1), `${a} ${b} ${most}`)
  }
})

test('closest: more than 2000 candidates are not compared', () => {
  const names = (count: number) => ['start', ...Array.from({ length: count }, (_, index) => `name${index}`)]
  assert.equal(closest('strat', names(1999)), 'start')
  assert.equal(closest('strat', names(2000)), undefined)
})
