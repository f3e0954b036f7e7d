import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { giveWay } from './give-way.ts'

/** Waits for the pauses until the last calls in a row have all paused, or none of them has. */
async function untilPauses(isPausing: boolean): Promise<void> {
  for (let inRow = 0; inRow < 5; ) {
    const pause = giveWay()
    inRow = (pause !== undefined) === isPausing ? inRow + 1 : 0
    await (pause ?? sleep(1))
  }
}

test('give way: work pauses after each part while the event loop is busy, and goes on at once when it is idle', async () => {
  await untilPauses(false)
  let isBusy = true
  const keepBusy = () => {
    for (const end = performance.now() + 2; performance.now() < end; );
    if (isBusy) setImmediate(keepBusy)
  }
  keepBusy()
  await untilPauses(true)
  isBusy = false
  await untilPauses(false)
})

test('give way: all work pauses together', async () => {
  let pause = giveWay()
  while (!pause) {
    await sleep(1)
    pause = giveWay()
  }
  assert.equal(giveWay(), pause)
  await pause
})
