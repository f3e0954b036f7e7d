import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { whileDiskHasSpace } from './task-space.ts'

const full = new Refusal('disk_reserve_reached', 'no space')
const { signal } = new AbortController()

test('tasks: a task ends with the refusal once the disk reserve is reached', async () => {
  let found: Refusal | undefined
  const work = whileDiskHasSpace({ refusal: () => found }, signal, async within => {
    found = full
    await new Promise(resolve => within.addEventListener('abort', resolve))
    throw new Error('a connection was closed')
  })
  await assert.rejects(work, full)
})

test('tasks: no task begins while the disk reserve is reached', async () => {
  await assert.rejects(
    whileDiskHasSpace({ refusal: () => full }, signal, () => assert.fail('it has begun')),
    full,
  )
})
