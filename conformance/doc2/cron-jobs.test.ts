// 2 §2 "Scheduled job", §4.4 and Queues contract §6: scheduling, replacing and removing jobs.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CronApi, cronProject } from '../cron.ts'
import { unique } from '../people.ts'
import { bodyOf, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, assertManagementError } from '../wire.ts'

let it: Target
let cron: CronApi
before(async () => {
  it = await target()
  cron = await cronProject(it)
})
after(() => it.stop())

const yearly = '30 4 1 1 *'
const inPath = encodeURIComponent
const names = (jobs: { name: string }[]) => jobs.map(({ name }) => name).toSorted()

test('2 §4.4 a job is scheduled, listed and removed, in both shapes of the URL', async () => {
  for (const shape of shapes) {
    const own = await cronProject(it)
    assert.deepEqual(bodyOf(await own.ask('GET', 'jobs', undefined, shape)), [])
    const input = { name: 'nightly', schedule: yearly, command: 'select 1' }
    const job = bodyOf(await own.ask('POST', 'jobs', input, shape), 201)
    assert.partialDeepStrictEqual(job, { ...input, active: true })
    assert.ok(Number.isInteger(job.jobid))
    for (const time of ['created_at', 'updated_at'])
      assert.ok(Math.abs(Date.parse(job[time]) - Date.now()) < 600_000, time)
    assert.deepEqual(bodyOf(await own.ask('GET', 'jobs', undefined, shape)), [job])
    assert.deepEqual(bodyOf(await own.ask('GET', 'jobs/nightly/runs', undefined, shape)), [])
    const removed = await own.ask('DELETE', 'jobs/nightly', undefined, shape)
    assert.deepEqual([removed.status, removed.text], [204, ''])
    assert.deepEqual(bodyOf(await own.ask('GET', 'jobs', undefined, shape)), [])
  }
})

test('issue 5: scheduling a job with an existing name replaces it and keeps its id', async () => {
  const own = await cronProject(it)
  const first = await own.schedule('report', yearly, 'select 1')
  await own.schedule('other', yearly, 'select 3')
  const second = await own.schedule('report', '0 12 * * *', 'select 2')
  assert.equal(second.jobid, first.jobid)
  assert.partialDeepStrictEqual(second, { name: 'report', schedule: '0 12 * * *', command: 'select 2' })
  assert.equal(second.created_at, first.created_at)
  const jobs = await own.jobs()
  assert.deepEqual(names(jobs), ['other', 'report'])
  assert.deepEqual(
    jobs.find(({ name }) => name === 'report'),
    second,
  )
})

test('issue 5: concurrent schedules of the same name leave one job', async () => {
  const own = await cronProject(it)
  const replies = await Promise.all(
    Array.from({ length: 12 }, (_, place) =>
      own.post('jobs', { name: 'contested', schedule: yearly, command: `select ${place}` }),
    ),
  )
  const ids = replies.map(reply => bodyOf(reply, 201).jobid)
  assert.equal(new Set(ids).size, 1)
  assert.equal((await own.jobs()).length, 1)
})

test('Queues contract §6: removing a job that does not exist is 404', async () => {
  for (const shape of shapes)
    for (const [method, path] of [
      ['DELETE', 'jobs/nothing'],
      ['GET', 'jobs/nothing/runs'],
    ] as const)
      assertDataError(await cron.ask(method, path, undefined, shape), 'job_not_found')
  const name = unique('job')
  await cron.schedule(name, yearly, 'select 1')
  await cron.unschedule(name)
  assertDataError(await cron.delete(`jobs/${name}`), 'job_not_found')
  assertDataError(await cron.get(`jobs/${name}/runs`), 'job_not_found')
})

test('2 §2 names are per project and returned unchanged', async () => {
  const [mine, theirs] = [await cronProject(it), await cronProject(it)]
  await mine.schedule('same', yearly, 'select 1')
  assert.deepEqual(await theirs.jobs(), [])
  assertDataError(await theirs.delete('jobs/same'), 'job_not_found')
  assertDataError(await theirs.get('jobs/same/runs'), 'job_not_found')
  await theirs.schedule('same', '0 0 * * *', 'select 2')
  assert.partialDeepStrictEqual(await mine.jobs(), [{ name: 'same', schedule: yearly }])
  await theirs.unschedule('same')
  assert.deepEqual(names(await mine.jobs()), ['same'])
  await theirs.schedule(`${mine.project.id}:same`, yearly, 'select 1')
  assert.deepEqual(names(await theirs.jobs()), [`${mine.project.id}:same`])
})

const oddNames = [
  'a',
  'clean up: nightly',
  'a/b',
  '%2F',
  '100%',
  '?x=1#y',
  'Grüße 😀',
  "o'clock",
  '"quoted"',
  '\\',
  '*',
  'null',
  '__proto__',
  'constructor',
  'x'.repeat(200),
  'ä'.repeat(200),
]

test('2 §2 a name is one line of text, up to 200 characters', async () => {
  const own = await cronProject(it)
  for (const name of oddNames) {
    assert.equal((await own.schedule(name, yearly, 'select 1')).name, name)
    assert.deepEqual(await own.runs(name), [], name)
  }
  assert.deepEqual(names(await own.jobs()), oddNames.toSorted())
  for (const name of oddNames) {
    const runs = await it.manage('GET', `/projects/${own.project.id}/cron/jobs/${inPath(name)}/runs`)
    assert.equal(bodyOf(runs).total, 0, name)
    await own.unschedule(name)
  }
  assert.deepEqual(await own.jobs(), [])
})

test('2 §2 name, schedule and command are required strings', async () => {
  const own = await cronProject(it)
  const input = { name: 'job', schedule: yearly, command: 'select 1' }
  for (const body of [
    '{',
    {},
    [],
    { ...input, name: undefined },
    { ...input, schedule: undefined },
    { ...input, command: undefined },
    { ...input, name: '' },
    { ...input, name: 'x'.repeat(201) },
    { ...input, name: 'two\nlines' },
    { ...input, name: 'nul\0' },
    { ...input, name: 5 },
    { ...input, command: '' },
    { ...input, command: ['select 1'] },
    { ...input, command: 'select 1 -- \0' },
    { ...input, schedule: 5 },
    { ...input, schedule: '' },
    { ...input, database: 'other' },
    { ...input, username: 'postgres' },
  ]) {
    const reply = await own.post('jobs', body)
    assert.equal(reply.status, 400, `${JSON.stringify(body)}: ${reply.status} ${reply.text}`)
  }
  assert.deepEqual(await own.jobs(), [])
})

test('2 §4.4 the management mirror lists the same jobs in pages and is read-only', async () => {
  const own = await cronProject(it)
  const path = `/projects/${own.project.id}/cron/jobs`
  assert.partialDeepStrictEqual(bodyOf(await it.manage('GET', path)), { jobs: [], total: 0, offset: 0 })
  for (const name of ['a', 'b', 'c']) await own.schedule(name, yearly, `select '${name}'`)
  const { jobs, total } = bodyOf(await it.manage('GET', path))
  assert.equal(total, 3)
  assert.deepEqual(
    jobs.toSorted((a: any, b: any) => a.jobid - b.jobid),
    (await own.jobs()).toSorted((a, b) => a.jobid - b.jobid),
  )
  const pages = [
    await it.manage('GET', `${path}?limit=2`),
    await it.manage('GET', `${path}?limit=2&offset=2`),
  ]
  assert.deepEqual(
    pages.map(({ body }) => [body.jobs.length, body.total, body.limit, body.offset]),
    [
      [2, 3, 2, 0],
      [1, 3, 2, 2],
    ],
  )
  assert.deepEqual(names(pages.flatMap(({ body }) => body.jobs)), ['a', 'b', 'c'])

  const input = { name: 'd', schedule: yearly, command: 'select 1' }
  for (const [method, rest, body] of [
    ['POST', '', input],
    ['PUT', '/a', input],
    ['PATCH', '/a', input],
    ['DELETE', '/a'],
    ['POST', '/a/runs'],
  ] as const)
    assertManagementError(await it.manage(method, `${path}${rest}`, body), 'route_not_found')
  assert.equal((await own.jobs()).length, 3)
})

test('2 §4.4 the mirror is 404 for a missing job or project', async () => {
  const someProject = '00000000-0000-4000-8000-000000000000'
  assertManagementError(
    await it.manage('GET', `/projects/${cron.project.id}/cron/jobs/nothing/runs`),
    'job_not_found',
  )
  for (const rest of ['jobs', 'jobs/nothing/runs'])
    assertManagementError(
      await it.manage('GET', `/projects/${someProject}/cron/${rest}`),
      'project_not_found',
    )
})
