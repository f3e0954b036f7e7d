import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { createLog } from './log.ts'
import { startWorker, type Work } from './worker.ts'
import type { Job, Room } from './worker-slots.ts'

const never = 1_000_000

const jobOf = (id: number, project_id = 'a'): Job => ({ id: String(id), project_id })

/** A queue in memory. A claim removes jobs from `waiting`, and `record` adds them to `done`. */
function queueOf(count: number) {
  const waiting: Job[] = Array.from({ length: count }, (_, id) => jobOf(id))
  const done: string[] = []
  const work: Work<Job, string> = {
    name: 'test',
    bounds: { all: 3, perProject: 3 },
    claim: async ({ jobs }) => waiting.splice(0, jobs),
    nextDueMs: async () => undefined,
    act: async () => 'done',
    record: async job => void done.push(job.id),
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

test('jobs that wait at the start are run, and later ones after wake()', async () => {
  const { waiting, done, work } = queueOf(5)
  const worker = startWorker(work, log)
  await until(() => done.length === 5)
  waiting.push(jobOf(5))
  worker.wake()
  await until(() => done.length === 6)
  await worker.close()
})

test('a wake() during a claim is not missed', async () => {
  const { waiting, done, work } = queueOf(0)
  let endClaim = () => {}
  const claimed = Promise.withResolvers<void>()
  const claim = async () => {
    const jobs = waiting.splice(0, 1)
    claimed.resolve()
    await new Promise<void>(resolve => (endClaim = resolve))
    return jobs
  }
  const worker = startWorker({ ...work, claim }, log)
  await claimed.promise
  waiting.push(jobOf(1))
  worker.wake()
  await until(() => {
    endClaim()
    return done.length === 1
  })
  const closing = worker.close()
  endClaim()
  await closing
})

test('at most `bounds.all` jobs run at once, and the end of one lets the next start', async () => {
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

test('an idle worker claims only at its poll interval', async () => {
  const { work } = queueOf(0)
  let claims = 0
  const claim = async () => {
    claims++
    return []
  }
  const worker = startWorker({ ...work, claim, pollMs: 20 }, log)
  await until(() => claims >= 3)
  await worker.close()
  claims = 0
  const rare = startWorker({ ...work, claim }, log)
  await sleep(50)
  assert.equal(claims, 1)
  await rare.close()
})

test('the worker claims a job when it becomes due', async () => {
  const { waiting, done, work } = queueOf(0)
  const dueAt = new Map([1, 2, 3].map(id => [id, performance.now() + 300 * id]))
  const claim = async () => {
    for (const [id, at] of dueAt)
      if (at <= performance.now()) {
        dueAt.delete(id)
        waiting.push(jobOf(id))
      }
    return waiting.splice(0, 1)
  }
  const nextDueMs = async () =>
    dueAt.size === 0 ? undefined : Math.min(...dueAt.values()) - performance.now()
  const worker = startWorker({ ...work, claim, nextDueMs }, log)
  await until(() => done.length === 3)
  assert.deepEqual(done, ['1', '2', '3'])
  await worker.close()
})

test('a due job that cannot be claimed does not make the worker poll continuously', async () => {
  const { work } = queueOf(0)
  let claims = 0
  const claim = async () => {
    claims++
    return []
  }
  const since = performance.now()
  const worker = startWorker({ ...work, claim, nextDueMs: async () => -1000 }, log)
  await until(() => claims === 3)
  assert.ok(performance.now() - since > 400)
  await worker.close()
})

test('failed claims are retried and logged once', async () => {
  const { done, work } = queueOf(2)
  let failures = 2
  logged.length = 0
  const claim = (room: Room) => (failures-- > 0 ? Promise.reject(new Error('no database')) : work.claim(room))
  const worker = startWorker({ ...work, claim }, log)
  await until(() => done.length === 2)
  assert.equal(logged.filter(line => line.includes('cannot claim jobs')).length, 1)
  await worker.close()
})

test('recording an outcome is retried, and the job does not run again', async () => {
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
    if (id === '1') throw new Error('unexpected')
    return 'done'
  }
  const worker = startWorker({ ...work, act }, log)
  await until(() => done.length === 3)
  assert.deepEqual(done.toSorted(), ['0', '2', '3'])
  await worker.close()
})

test('closing aborts running jobs, waits for them, and claims no others', async () => {
  const { waiting, done, work } = queueOf(9)
  const aborted: boolean[] = []
  const act = (_job: Job, stop: AbortSignal) =>
    new Promise<string>(resolve =>
      stop.addEventListener('abort', () => {
        aborted.push(stop.aborted)
        resolve('stopped')
      }),
    )
  const worker = startWorker({ ...work, act }, log)
  await until(() => waiting.length === 6)
  await worker.close()
  assert.deepEqual([aborted.length, done.length, waiting.length], [3, 3, 6])
  worker.wake()
  await turn()
  assert.equal(waiting.length, 6)
})

test('closing does not wait for a database that stays down', async () => {
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

/** A queue of several projects whose claim respects the room, longest due first. */
function queueOfProjects(waiting: Job[]) {
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const work: Work<Job, string> = {
    ...queueOf(0).work,
    async claim({ jobs, perProject, places }) {
      const taken = new Map<string, number>()
      const claimed: Job[] = []
      for (const job of [...waiting]) {
        const count = taken.get(job.project_id) ?? 0
        if (claimed.length === jobs || count >= (places.get(job.project_id) ?? perProject)) continue
        taken.set(job.project_id, count + 1)
        claimed.push(job)
        waiting.splice(waiting.indexOf(job), 1)
      }
      return claimed
    },
    act: job => {
      started.push(`${job.project_id}${job.id}`)
      return new Promise(resolve => ends.set(`${job.project_id}${job.id}`, () => resolve('done')))
    },
  }
  return { work, started, ends }
}

test('a claim takes several jobs, but of one project no more than its limit', async () => {
  const waiting = [...[1, 2, 3, 4].map(id => jobOf(id, 'a')), jobOf(5, 'b')]
  const { work, started, ends } = queueOfProjects(waiting)
  let claims = 0
  const claim = (room: Room) => {
    claims++
    return work.claim(room)
  }
  const worker = startWorker({ ...work, claim, bounds: { all: 10, perProject: 2 } }, log)
  await until(() => started.length === 3)
  assert.deepEqual(started, ['a1', 'a2', 'b5'])
  assert.equal(claims, 1)
  ends.get('a1')!()
  await until(() => started.length === 4)
  assert.deepEqual(started.slice(3), ['a3'])
  for (const end of ends.values()) end()
  await until(() => started.length === 5)
  for (const end of ends.values()) end()
  await worker.close()
})

test('projects take turns when more jobs are due than there are slots', async () => {
  const waiting = [...[1, 2, 3, 4, 5, 6].map(id => jobOf(id, 'a')), jobOf(7, 'b'), jobOf(8, 'c')]
  const { work, started, ends } = queueOfProjects(waiting)
  const worker = startWorker({ ...work, bounds: { all: 1, perProject: 1 } }, log)
  for (let count = 1; count <= 8; count++) {
    await until(() => started.length === count)
    ends.get(started.at(-1)!)!()
  }
  assert.deepEqual(started, ['a1', 'b7', 'c8', 'a2', 'a3', 'a4', 'a5', 'a6'])
  await worker.close()
})

test('the running jobs of one project can be aborted', async () => {
  const { work } = queueOfProjects([jobOf(1, 'a'), jobOf(2, 'b')])
  const aborted: unknown[] = []
  let running = 0
  const act = (_job: Job, signal: AbortSignal) => {
    running++
    return new Promise<string>(resolve =>
      signal.addEventListener('abort', () => {
        aborted.push(signal.reason)
        resolve('aborted')
      }),
    )
  }
  const worker = startWorker({ ...work, act }, log)
  await until(() => running === 2)
  assert.deepEqual([worker.hasJobsOf('a'), worker.hasJobsOf('c')], [true, false])
  worker.abort('a', 'the project was suspended')
  await until(() => aborted.length === 1)
  assert.deepEqual(aborted, ['the project was suspended'])
  await worker.close()
})

test('leases of running jobs are extended until their outcome is recorded', async () => {
  const { work, done } = queueOf(1)
  const extended: string[] = []
  const recording = Promise.withResolvers<void>()
  const worker = startWorker(
    {
      ...work,
      record: async (job, outcome) => {
        await recording.promise
        await work.record(job, outcome)
      },
      lease: { everyMs: 1, extend: async jobs => void extended.push(...jobs.map(({ id }) => id)) },
    },
    log,
  )
  await until(() => extended.length >= 3)
  recording.resolve()
  await until(() => done.length === 1)
  await turn()
  const count = extended.length
  await sleep(20)
  assert.equal(extended.length, count)
  await worker.close()
})

test('a slow project runs at once if the other slow ones, which share its places, have nothing to do', async () => {
  const { waiting, done, work } = queueOf(0)
  const claim = async ({ jobs, perProject, places }: Room) => {
    const at = jobs === 0 ? -1 : waiting.findIndex(each => (places.get(each.project_id) ?? perProject) > 0)
    return at === -1 ? [] : waiting.splice(at, 1)
  }
  const slow = { afterMs: 0, forMs: never, prompt: 2, shared: 1, perProject: 1 }
  const worker = startWorker({ ...work, claim, bounds: { all: 4, perProject: 1, slow } }, log)
  const names = ['a', 'b', 'c', 'd', 'c', 'a', 'd', 'b']
  for (const [id, projectId] of names.entries()) {
    waiting.push(jobOf(id, projectId))
    worker.wake()
    await until(() => done.length === id + 1)
  }
  await worker.close()
})
