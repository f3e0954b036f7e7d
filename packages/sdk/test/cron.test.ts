// client.cron against a real platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { granted, refused, type Stage, setStage } from './stage.ts'

let stage: Stage
before(async () => {
  stage = await setStage()
})
after(() => stage.stop())

/** No run starts during the tests. */
const yearly = '0 0 1 1 *'

test('a job is scheduled, listed and removed', async () => {
  const { cron } = stage.service
  const job = granted(await cron.schedule({ name: 'tidy up', schedule: yearly, command: 'select 1' }))
  assert.partialDeepStrictEqual(job, { name: 'tidy up', schedule: yearly, command: 'select 1', active: true })
  assert.ok(Number.isInteger(job.jobid) && Date.parse(job.created_at) > 0)
  assert.deepEqual(
    granted(await cron.list()).map(({ jobid, name }) => ({ jobid, name })),
    [{ jobid: job.jobid, name: 'tidy up' }],
  )
  assert.equal(granted(await cron.unschedule('tidy up')), null)
  assert.deepEqual(granted(await cron.list()), [])
})

test('schedule replaces a job of the same name', async () => {
  const { cron } = stage.service
  const first = granted(await cron.schedule({ name: 'report', schedule: yearly, command: 'select 1' }))
  const second = granted(
    await cron.schedule({ name: 'report', schedule: '5 4 * * mon', command: 'select 2' }),
  )
  assert.equal(second.jobid, first.jobid)
  assert.deepEqual(
    granted(await cron.list()).map(({ schedule, command }) => [schedule, command]),
    [['5 4 * * mon', 'select 2']],
  )
  granted(await cron.unschedule('report'))
})

test('runs returns the newest runs of a job first, up to the limit', { timeout: 120_000 }, async () => {
  const { cron } = stage.service
  granted(await cron.schedule({ name: 'often', schedule: '1 seconds', command: 'select 42' }))
  assert.deepEqual(granted(await cron.runs('often', { limit: 0 })), [])
  while (granted(await cron.runs('often')).filter(({ status }) => status === 'succeeded').length < 2)
    await sleep(50)
  const runs = granted(await cron.runs('often'))
  const ids = runs.map(({ runid }) => runid)
  assert.deepEqual(
    ids,
    ids.toSorted((a, b) => b - a),
  )
  const done = runs.find(({ status }) => status === 'succeeded')
  assert.partialDeepStrictEqual(done, { name: 'often', command: 'select 42', return_message: 'SELECT 1' })
  assert.ok(Date.parse(done?.end_time ?? '') >= Date.parse(done?.start_time ?? ''))
  assert.equal(granted(await cron.runs('often', { limit: 1 })).length, 1)
  granted(await cron.unschedule('often'))
})

test('job names may have any characters', async () => {
  const { cron } = stage.service
  for (const name of ['a/b', '100%', 'wöchentlich ☀️', '?x=1#y', '...', "it's"]) {
    granted(await cron.schedule({ name, schedule: yearly, command: 'select 1' }))
    assert.deepEqual(granted(await cron.runs(name)), [])
    granted(await cron.unschedule(name))
  }
  assert.deepEqual(granted(await cron.list()), [])
})

test('errors of the platform are returned', async () => {
  const { cron } = stage.service
  const bad = refused(
    await cron.schedule({ name: 'x', schedule: 'every now and then', command: 'select 1' }),
    400,
    'invalid_schedule',
  )
  assert.ok(bad.requestId)
  refused(await cron.schedule({ name: '', schedule: yearly, command: 'select 1' }), 400, 'invalid_request')
  refused(await cron.unschedule('unknown'), 404, 'job_not_found')
  refused(await cron.runs('unknown'), 404, 'job_not_found')
  refused(await cron.runs('unknown', { limit: -1 }), 400, 'invalid_request')
  // URL parsers remove these segments, so the request would address another route.
  for (const name of ['.', '..', '']) {
    refused(await cron.unschedule(name), 0, 'invalid_argument')
    refused(await cron.runs(name), 0, 'invalid_argument')
  }
})

test('every method rejects the anon key', async () => {
  const { cron } = stage.anon
  const calls = [
    cron.schedule({ name: 'x', schedule: yearly, command: 'select 1' }),
    cron.list(),
    cron.unschedule('x'),
    cron.runs('x'),
  ]
  for (const call of calls) refused(await call, 403, 'role_not_allowed')
})

test('a call with an aborted signal sends no request', async () => {
  const { cron } = stage.service
  const signal = AbortSignal.abort()
  const calls = [
    cron.schedule({ name: 'aborted', schedule: yearly, command: 'select 1' }, { signal }),
    cron.list({ signal }),
    cron.unschedule('aborted', { signal }),
    cron.runs('aborted', { limit: 1, signal }),
  ]
  for (const call of calls) refused(await call, 0, 'request_aborted')
  assert.deepEqual(granted(await cron.list()), [])
})
