import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlots } from '#src/kernel/worker-slots.ts'
import { bounds } from './worker.ts'

test('pitr: two recoveries that take long leave a place for a third project, and not for their own', () => {
  let now = 0
  const slots = createSlots(bounds, () => now)
  for (const id of ['1', '2']) slots.start({ id, project_id: `slow ${id}` })
  assert.equal(slots.room().jobs, 0)
  now = slots.nextChangeMs()
  const { jobs, perProject, places } = slots.room()
  assert.ok(jobs > 0 && perProject > 0)
  assert.deepEqual(
    [...places],
    [
      ['slow 1', 0],
      ['slow 2', 0],
    ],
  )
})
