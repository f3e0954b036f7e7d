import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLag } from './lag.ts'

function reader(isShared: boolean) {
  const told: string[] = []
  const begun = performance.now()
  const note = createLag({ hasOthers: async () => isShared }, 1000, message => void told.push(message))
  return { told, look: (isFull: boolean, atMs: number) => note({ isFull }, begun + atMs) }
}

test('who comes to the end of the outbox in time is told nothing', async () => {
  const { told, look } = reader(true)
  for (const at of [100, 900, 1700, 2500]) await look(false, at)
  await look(true, 3000)
  await look(false, 3400)
  assert.deepEqual(told, [])
})

test('who does not is told, and again only when as much time has gone by', async () => {
  const { told, look } = reader(true)
  for (const at of [100, 900, 1700, 2500]) await look(true, at)
  assert.equal(told.length, 1)
  await look(true, 3300)
  assert.equal(told.length, 2)
  await look(false, 3400)
  await look(true, 4300)
  assert.equal(told.length, 2)
})

test('nor is one told that has the outbox to itself', async () => {
  const { told, look } = reader(false)
  for (const at of [100, 2000, 9000]) await look(true, at)
  assert.deepEqual(told, [])
})
