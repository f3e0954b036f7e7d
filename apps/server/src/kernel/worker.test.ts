import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { createLog } from './log.ts'
import { startWorker, type Work } from './worker.ts'

interface Job {
  id: number
}
const never = 1_000_000

/** A queue in memory: what a claim takes is away until it is recorded or given back. */
function queueOf(count: number) {
  const waiting: Job[] = Array.from({ length: count }, (_, id) => ({ id }))
  const done: number[] = []
  const work: Work<Job, string> = {
    name: 'test',
    claim: async () => waiting.shift(),
    nextDueMs: async () => undefined,
    act: async () => 'done',
    record: async job => void done.push(job.id),
    atOnce: 3,
    pollMs: never,
    graceMs: 0,
  }
  return { waiting, done, work }
}

const logged: string[] = []
const log = createLog('debug', { write: line => void logged.push(line) })

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await sleep(1)
}

test('what is there at the start is done, and what comes later when it is announced', async () => {
  const { waiting, done, work } = queueOf(5)
  const worker = startWorker(work, log)
  await until(() => done.length === 5)
  waiting.push({ id: 5 })
  worker.wake()
  await until(() => done.length === 6)
  await worker.close()
})

test('a job announced while a claim is under way is not missed', async () => {
  const { waiting, done, work } = queueOf(0)
  let letGo = () => {}
  const claimed = Promise.withResolvers<void>()
  const claim = async () => {
    const job = waiting.shift()
    claimed.resolve()
    await new Promise<void>(resolve => (letGo = resolve))
    return job
  }
  const worker = startWorker({ ...work, claim }, log)
  await claimed.promise
  waiting.push({ id: 1 })
  worker.wake()
  await until(() => {
    letGo()
    return done.length === 1
  })
  const closing = worker.close()
  letGo()
  await closing
})

test('no more jobs are under way than allowed, and each that ends makes room', async () => {
  const { done, work } = queueOf(20)
  let underWay = 0
  let most = 0
  const act = async () => {
    most = Math.max(most, ++underWay)
    await turn()
    underWay--
    return 'done'
  }
  const worker = startWorker({ ...work, act }, log)
  await until(() => done.length === 20)
  assert.equal(most, 3)
  await worker.close()
})

test('idle, it asks nothing but at its interval', async () => {
  const { work } = queueOf(0)
  let claims = 0
  const claim = async () => void claims++
  const worker = startWorker({ ...work, claim, pollMs: 20 }, log)
  await until(() => claims >= 3)
  await worker.close()
  claims = 0
  const rare = startWorker({ ...work, claim }, log)
  await sleep(50)
  assert.equal(claims, 1)
  await rare.close()
})

test('a job that will be due is looked for then, whatever was due before it', async () => {
  const { waiting, done, work } = queueOf(0)
  const dueAt = new Map([1, 2, 3].map(id => [id, performance.now() + 300 * id]))
  const claim = async () => {
    for (const [id, at] of dueAt)
      if (at <= performance.now()) {
        dueAt.delete(id)
        waiting.push({ id })
      }
    return waiting.shift()
  }
  const nextDueMs = async () =>
    dueAt.size === 0 ? undefined : Math.min(...dueAt.values()) - performance.now()
  const worker = startWorker({ ...work, claim, nextDueMs }, log)
  await until(() => done.length === 3)
  assert.deepEqual(done, [1, 2, 3])
  await worker.close()
})

test('a job that is due and cannot be had is not asked for all the time', async () => {
  const { work } = queueOf(0)
  let claims = 0
  const claim = async () => void claims++
  const since = performance.now()
  const worker = startWorker({ ...work, claim, nextDueMs: async () => -1000 }, log)
  await until(() => claims === 3)
  assert.ok(performance.now() - since > 400)
  await worker.close()
})

test('it survives claims that fail, and says so once', async () => {
  const { done, work } = queueOf(2)
  let failures = 2
  logged.length = 0
  const claim = () => (failures-- > 0 ? Promise.reject(new Error('no database')) : work.claim())
  const worker = startWorker({ ...work, claim }, log)
  await until(() => done.length === 2)
  assert.equal(logged.filter(line => line.includes('cannot look for work')).length, 1)
  await worker.close()
})

test('what was done is recorded when the database is back, and is not done again', async () => {
  const { done, work } = queueOf(1)
  let [acts, failures] = [0, 2]
  const worker = startWorker(
    {
      ...work,
      act: async () => `act ${++acts}`,
      record: (job, outcome) =>
        failures-- > 0 ? Promise.reject(new Error('no database')) : work.record(job, outcome),
    },
    log,
  )
  await until(() => done.length === 1)
  assert.equal(acts, 1)
  await worker.close()
})

test('a job that throws does not stop the others', async () => {
  const { done, work } = queueOf(4)
  const act = async ({ id }: Job) => {
    if (id === 1) throw new Error('unforeseen')
    return 'done'
  }
  const worker = startWorker({ ...work, act }, log)
  await until(() => done.length === 3)
  assert.deepEqual(done.toSorted(), [0, 2, 3])
  await worker.close()
})

test('closing waits for what is under way, tells it to stop, and takes nothing new', async () => {
  const { waiting, done, work } = queueOf(9)
  const told: boolean[] = []
  const act = (_job: Job, stop: AbortSignal) =>
    new Promise<string>(resolve =>
      stop.addEventListener('abort', () => {
        told.push(stop.aborted)
        resolve('stopped')
      }),
    )
  const worker = startWorker({ ...work, act }, log)
  await until(() => waiting.length === 6)
  await worker.close()
  assert.deepEqual([told.length, done.length, waiting.length], [3, 3, 6])
  worker.wake()
  await turn()
  assert.equal(waiting.length, 6)
})

test('closing does not wait for a database that stays away', async () => {
  const { work } = queueOf(1)
  const tried = Promise.withResolvers<void>()
  const record = () => {
    tried.resolve()
    return Promise.reject(new Error('no database'))
  }
  const worker = startWorker({ ...work, record }, log)
  await tried.promise
  await worker.close()
})
