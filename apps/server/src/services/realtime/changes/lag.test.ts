import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLagDetector } from './lag.ts'

function reader(isShared: boolean) {
  const notices: string[] = []
  const startedAt = performance.now()
  const detect = createLagDetector(
    { hasOthers: async () => isShared },
    1000,
    message => void notices.push(message),
  )
  return { notices, read: (isFull: boolean, atMs: number) => detect({ isFull }, startedAt + atMs) }
}

test('lag: a feed that reaches the end of the outbox in time sends no notice', async () => {
  const { notices, read } = reader(true)
  for (const at of [100, 900, 1700, 2500]) await read(false, at)
  await read(true, 3000)
  await read(false, 3400)
  assert.deepEqual(notices, [])
})

test('lag: a feed that falls behind sends one notice per retention period', async () => {
  const { notices, read } = reader(true)
  for (const at of [100, 900, 1700, 2500]) await read(true, at)
  assert.equal(notices.length, 1)
  await read(true, 3300)
  assert.equal(notices.length, 2)
  await read(false, 3400)
  await read(true, 4300)
  assert.equal(notices.length, 2)
})

test('lag: the only feed of an outbox sends no notice', async () => {
  const { notices, read } = reader(false)
  for (const at of [100, 2000, 9000]) await read(true, at)
  assert.deepEqual(notices, [])
})
