import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlots, type Job } from './worker-slots.ts'

const bounds = {
  all: 150,
  perProject: 2,
  slow: { afterMs: 10_000, forMs: 600_000, prompt: 50, shared: 25, perProject: 1 },
}

/** Slots with a controlled clock. `startAll` starts jobs of the projects while there is room. */
function stage() {
  let time = 0
  let count = 0
  const slots = createSlots(bounds, () => time)
  const start = (project_id: string): Job | undefined => {
    const { jobs, perProject, places } = slots.room()
    if (jobs === 0 || (places.get(project_id) ?? perProject) === 0) return
    const job = { id: `job ${count++}`, project_id }
    slots.start(job)
    return job
  }
  const startAll = (projects: readonly string[]) =>
    projects.flatMap(projectId => {
      const started: Job[] = []
      for (let job = start(projectId); job; job = start(projectId)) started.push(job)
      return started
    })
  return { slots, start, startAll, pass: (ms: number) => (time += ms) }
}
const named = (prefix: string, count: number) => Array.from({ length: count }, (_, at) => `${prefix} ${at}`)

test('a project runs two jobs at once, and all projects together fifty', () => {
  const { startAll, slots } = stage()
  assert.equal(startAll(['a']).length, 2)
  assert.equal(startAll(named('p', 100)).length, 48)
  assert.equal(slots.room().jobs, 0)
})

test('slow jobs leave their slots to other projects', () => {
  const { startAll, start, slots, pass } = stage()
  startAll(named('slow', 25))
  assert.equal(start('other'), undefined)
  assert.equal(slots.nextChangeMs(), 10_000)
  pass(10_000)
  assert.notEqual(start('other'), undefined)
})

test('slow projects share a part of the slots, until a job of theirs is prompt again', () => {
  const { startAll, start, slots, pass } = stage()
  const slow = named('slow', 40)
  const first = startAll(slow.slice(0, 25))
  pass(10_000)
  const second = startAll(slow.slice(25))
  pass(50_000)
  for (const id of [...first, ...second]) slots.end(id)
  const again = startAll(slow)
  assert.equal(again.length, bounds.slow.shared, 'one for each, up to their part')
  assert.equal(startAll(named('other', 100)).length, bounds.slow.prompt - bounds.slow.shared)
  slots.end(again[0]!)
  assert.equal(startAll(['slow 0']).length, 1, 'a slow project can run again')
  assert.equal(start('slow 1'), undefined)
})

test('a project is slow for ten minutes', () => {
  const { startAll, slots, pass } = stage()
  const first = startAll(['a'])
  assert.equal(first.length, 2)
  pass(20_000)
  for (const job of first) slots.end(job)
  const second = startAll(['a'])
  assert.equal(second.length, 1)
  slots.end(second[0]!)
  assert.equal(startAll(['a']).length, 2, 'a prompt job ends that sooner')
})

test('one claim gives slow projects no more places than they share', () => {
  const { startAll, slots, pass } = stage()
  const slow = named('slow', 40)
  const first = startAll(slow.slice(0, 25))
  pass(10_000)
  const second = startAll(slow.slice(25))
  pass(10_000)
  for (const job of [...first, ...second]) slots.end(job)
  const { places } = slots.room()
  const given = slow.map(projectId => places.get(projectId)!)
  assert.equal(
    given.reduce((sum, count) => sum + count, 0),
    bounds.slow.shared,
  )
})

test('places that slow projects do not use are handed on to others, each of which is asked once', () => {
  const { startAll, slots, pass } = stage()
  const slow = named('slow', 60)
  for (const some of [slow.slice(0, 25), slow.slice(25, 50), slow.slice(50)]) {
    const jobs = startAll(some)
    pass(10_000)
    for (const job of jobs) slots.end(job)
  }
  const given = () => slow.filter(projectId => slots.room().places.get(projectId) !== 0)
  const asked = new Set<string>()
  const rounds = [given()]
  while (slots.handOn(asked)) rounds.push(given())
  assert.deepEqual(
    rounds.map(({ length }) => length),
    [25, 25, 25],
  )
  assert.deepEqual([...new Set(rounds.flat())].sort(), [...slow].sort())
})

test('without bounds for slow projects, every running job counts', () => {
  const slots = createSlots({ all: 3, perProject: 2 }, () => 0)
  const jobs = ['a', 'a', 'b'].map((project_id, at) => ({ id: String(at), project_id }))
  for (const job of jobs) slots.start(job)
  assert.deepEqual(slots.room(), {
    jobs: 0,
    perProject: 2,
    places: new Map([
      ['a', 0],
      ['b', 1],
    ]),
  })
  assert.equal(slots.nextChangeMs(), Number.POSITIVE_INFINITY)
  slots.end(jobs[0]!)
  assert.deepEqual(slots.room(), {
    jobs: 1,
    perProject: 2,
    places: new Map([
      ['a', 1],
      ['b', 1],
    ]),
  })
})
