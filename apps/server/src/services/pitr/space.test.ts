import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSpaceClaims } from './space.ts'

const { signal } = new AbortController()
const mb = 1_000_000

test('pitr: a recovery that needs more than what is free beyond the reserve fails and says so', async () => {
  const claims = createSpaceClaims(async () => 2 * mb)
  await assert.rejects(claims.claim(3 * mb, signal), {
    message: 'there is too little space: 3 MB are needed, and 2 MB are free beyond PLATFORM_DISK_RESERVE_MB',
  })
  await claims.claim(2 * mb, signal)
})

test('pitr: a recovery waits while others need the same free space', async () => {
  const claims = createSpaceClaims(async () => 10 * mb, 1)
  const [first] = await Promise.all([claims.claim(6 * mb, signal), claims.claim(4 * mb, signal)])
  let isClaimed = false
  const third = claims.claim(3 * mb, signal).then(claim => {
    isClaimed = true
    return claim
  })
  await sleep(20)
  first.reduceTo(4 * mb)
  await sleep(20)
  assert.equal(isClaimed, false)
  first.release()
  ;(await third).release()
})

test('pitr: recoveries that begin at once do not share free space', async () => {
  const claims = createSpaceClaims(async () => 10 * mb, 1)
  const stopped = new AbortController()
  const both = [1, 2].map(() => claims.claim(6 * mb, stopped.signal))
  await Promise.race(both)
  stopped.abort()
  const outcomes = await Promise.allSettled(both)
  assert.deepEqual(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
})
