import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTurns, createTurnsByOwner } from './turns.ts'

const gate = () => Promise.withResolvers<void>()
const settle = () => new Promise(resolve => setImmediate(resolve))

test('a few work at a time, and the others in the order they came', async () => {
  const turn = createTurns(2)
  const gates = [gate(), gate(), gate(), gate()]
  const begun: number[] = []
  const works = gates.map(({ promise }, number) =>
    turn(() => {
      begun.push(number)
      return promise
    }),
  )
  await settle()
  assert.deepEqual(begun, [0, 1])
  gates[1]!.resolve()
  await settle()
  assert.deepEqual(begun, [0, 1, 2])
  gates[0]!.reject(new Error('it fails'))
  await assert.rejects(works[0]!)
  await settle()
  assert.deepEqual(begun, [0, 1, 2, 3])
  for (const { resolve } of gates) resolve()
  await Promise.all(works.slice(1))
})

test('whoever has a long line is refused, and nobody else waits for it', async () => {
  const inLine = createTurnsByOwner(1, 2)
  const held = gate()
  const waiting = [1, 2, 3].map(() => inLine('a', () => held.promise))
  await assert.rejects(
    inLine('a', async () => {}),
    { code: 'pool_exhausted', status: 429 },
  )
  assert.equal(await inLine('b', async () => 'at once'), 'at once')
  held.resolve()
  await Promise.all(waiting)
  assert.equal(await inLine('a', async () => 'again'), 'again')
})
