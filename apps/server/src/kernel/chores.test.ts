import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createChore, startChore } from './chores.ts'
import { createLog } from './log.ts'

const logged: string[] = []
const log = createLog('debug', { write: line => void logged.push(line) })

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(1)
}

test('a chore runs repeatedly, and its runs never overlap', async () => {
  let [runs, underWay, most] = [0, 0, 0]
  const chore = startChore({
    name: 'test',
    everyMs: 1,
    async run() {
      most = Math.max(most, ++underWay)
      await sleep(5)
      underWay--
      runs++
    },
  })
  await until(() => runs >= 5)
  await chore.stop()
  assert.equal(most, 1)
})

test('stop aborts the current run, waits for it, and starts no other', async () => {
  let runs = 0
  let hasEnded = false
  const chore = startChore({
    name: 'test',
    everyMs: 1,
    async run(signal) {
      runs++
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
      await sleep(5)
      hasEnded = true
    },
  })
  await until(() => runs === 1)
  await chore.stop()
  assert.ok(hasEnded)
  chore.start()
  await sleep(20)
  assert.equal(runs, 1)
})

test('consecutive errors are logged once, and the chore continues', async () => {
  logged.length = 0
  let runs = 0
  const chore = startChore(
    {
      name: 'broken',
      everyMs: 1,
      run() {
        runs++
        if (runs !== 4) throw new Error('no database')
      },
    },
    log,
  )
  await until(() => runs >= 8)
  await chore.stop()
  const lines = logged.filter(line => line.includes('broken') && line.includes('no database'))
  assert.equal(lines.length, 2)
})

test('a chore that fails runs again after short pauses, which double up to the usual one', async context => {
  context.mock.timers.enable({ apis: ['setTimeout'] })
  const hourMs = 3_600_000
  const failures = 12
  let runs = 0
  const chore = startChore({
    name: 'test',
    everyMs: hourMs,
    runsAtStart: true,
    run() {
      runs++
      if (runs <= failures) throw new Error('no store')
    },
  })
  /** Long enough for the pause with its jitter, and too short for twice the pause. */
  async function passes(ms: number): Promise<void> {
    context.mock.timers.tick(ms * 1.06)
    await new Promise(setImmediate)
  }
  await passes(0)
  for (let failed = 1; failed <= failures; failed++) {
    const pauseMs = Math.min(hourMs, 5000 * 2 ** (failed - 1))
    await passes(pauseMs / 1.2)
    assert.equal(runs, failed)
    await passes(pauseMs - pauseMs / 1.2)
    assert.equal(runs, failed + 1)
  }
  await passes(hourMs / 1.2)
  assert.equal(runs, failures + 1)
  await chore.stop()
})

test('an idle chore does not run until it is started again', async () => {
  let runs = 0
  const chore = createChore({
    name: 'test',
    everyMs: 1,
    run: () => {
      runs++
      return 'idle'
    },
  })
  await sleep(10)
  assert.equal(runs, 0)
  chore.start()
  await until(() => runs === 1)
  await sleep(10)
  assert.equal(runs, 1)
  chore.start()
  chore.start()
  await until(() => runs === 2)
  await sleep(10)
  assert.equal(runs, 2)
  await chore.stop()
})
