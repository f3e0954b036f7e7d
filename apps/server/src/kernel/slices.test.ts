import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { atOnce, inSlices, isTurnSpent, type Sliced } from './slices.ts'

function* count(slices: number, onSlice: () => void = () => {}): Sliced<number> {
  for (let at = 0; at < slices; at++) {
    onSlice()
    if (at < slices - 1) yield
  }
  return slices
}

const busyMs = (ms: number) => {
  for (const endAt = performance.now() + ms; performance.now() < endAt; );
}

test('slices: work that fits into one slice is done before inSlices returns', () => {
  let done = 0
  void inSlices(count(1, () => done++))
  assert.equal(done, 1)
})

test('slices: long slices leave a turn of the event loop between them', async () => {
  let done = 0
  const work = inSlices(
    count(4, () => {
      done++
      busyMs(6)
    }),
  )
  assert.equal(done, 1)
  await nextTurn()
  assert.ok(done <= 3, `${done} slices in one turn`)
  assert.equal(await work, 4)
})

test('slices: jobs take turns, so a short one does not wait for a long one to end', async () => {
  const order: string[] = []
  const long = inSlices(
    count(50, () => {
      busyMs(2)
      order.push('long')
    }),
  )
  await inSlices(count(3, () => order.push('short')))
  assert.ok(order.filter(name => name === 'long').length < 10, order.join(' '))
  await long
})

test('slices: many jobs together do not make a turn longer than one job does', async () => {
  let slices = 0
  const all = Promise.all(
    Array.from({ length: 20 }, () =>
      inSlices(
        count(3, () => {
          slices++
          busyMs(6)
        }),
      ),
    ),
  )
  const before = slices
  await nextTurn()
  await nextTurn()
  assert.ok(slices - before <= 3, `${slices - before} slices in two turns`)
  await all
})

test('slices: an error in any slice rejects, and the other jobs go on', async () => {
  function* failing(): Sliced<never> {
    yield
    throw new Error('bad input')
  }
  const other = inSlices(count(3))
  await assert.rejects(inSlices(failing()), /bad input/)
  assert.equal(await other, 3)
})

test('slices: atOnce runs to the end', () => {
  assert.equal(atOnce(count(7)), 7)
})

test('slices: direct work has ten milliseconds per turn', async () => {
  await nextTurn()
  assert.equal(isTurnSpent(), false)
  busyMs(11)
  assert.equal(isTurnSpent(), true)
  await nextTurn()
  await nextTurn()
  assert.equal(isTurnSpent(), false)
})

test('slices: work that a slice starts takes turns like any other', async () => {
  const order: string[] = []
  let inner: Promise<number> | undefined
  const outer = inSlices(
    count(4, () => {
      order.push('outer')
      if (order.length > 1) inner ??= inSlices(count(3, () => order.push('inner')))
    }),
  )
  await outer
  await inner
  await nextTurn()
  assert.deepEqual(order.toSorted(), ['inner', 'inner', 'inner', 'outer', 'outer', 'outer', 'outer'])
})
