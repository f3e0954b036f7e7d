// 2 §1, §4.4, §5, §7: scheduling requires the service_role key, and the management API is read-only.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { cronApi } from '@plinth/contract/cron.ts'
import { cronProject } from '../cron.ts'
import { mintToken, userJwt } from '../people.ts'
import { assertServiceRoleOnly, assertSuspendable, bodyOf, rootOf, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError, assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

test('2 §5 every route accepts the service_role key and rejects every other credential', async () => {
  await assertServiceRoleOnly(it, cronApi)
})

test('1 §1 job routes of a suspended project are rejected until it is resumed', async () => {
  await assertSuspendable(it, cronApi)
})

test('2 §7 a rejected request has no effect', async () => {
  const cron = await cronProject(it)
  const job = await cron.schedule('kept', '0 0 1 1 *', 'select 1')
  const { id, anon_key } = cron.project
  const input = { name: 'new', schedule: '0 0 1 1 *', command: 'select 1' }
  for (const shape of shapes)
    for (const [method, path, body] of [
      ['POST', 'jobs', input],
      ['POST', 'jobs', { ...input, name: 'kept', command: 'select 2' }],
      ['DELETE', 'jobs/kept'],
    ] as const) {
      const call = (options: object) => it.call(method, `${rootOf('cron', id, shape)}/${path}`, options)
      assertDataError(await call({ apikey: anon_key, body }), 'role_not_allowed')
      assertDataError(
        await call({ apikey: anon_key, token: userJwt(cron.project), body }),
        'role_not_allowed',
      )
      assertDataError(await call({ body }), 'unauthorized')
    }
  assert.deepEqual(await cron.jobs(), [job])
})

test('2 §1 the project is taken from the verified key: one key never opens another project', async () => {
  const [mine, theirs] = [await cronProject(it), await cronProject(it)]
  await theirs.schedule('secret', '0 0 1 1 *', 'select 1')
  for (const shape of shapes)
    for (const [method, path] of [
      ['GET', 'jobs'],
      ['GET', 'jobs/secret/runs'],
      ['DELETE', 'jobs/secret'],
    ] as const)
      assertDataError(
        await it.call(method, `${rootOf('cron', theirs.project.id, shape)}/${path}`, {
          token: mine.project.service_role_key,
        }),
        'unauthorized',
      )
  assert.equal((await theirs.jobs()).length, 1)
})

test('2 §4.4 the management mirror needs read scope', async () => {
  const cron = await cronProject(it)
  await cron.schedule('seen', '0 0 1 1 *', 'select 1')
  const path = `/api/v1/projects/${cron.project.id}/cron/jobs`
  for (const scope of ['read', 'deploy', 'admin']) {
    const { token } = await mintToken(it, scope)
    assert.equal(bodyOf(await it.call('GET', path, { token })).total, 1)
    assert.equal(bodyOf(await it.call('GET', `${path}/seen/runs`, { token })).total, 0)
  }
  for (const token of [undefined, cron.project.service_role_key, cron.project.anon_key])
    for (const at of [path, `${path}/seen/runs`])
      assertManagementError(await it.call('GET', at, { token }), 'unauthorized')
})

test('2 §4.4 the mirror of a suspended project can be read', async () => {
  const cron = await cronProject(it)
  await cron.schedule('seen', '0 0 1 1 *', 'select 1')
  await it.manage('POST', `/projects/${cron.project.id}/suspend`)
  const { jobs } = bodyOf(await it.manage('GET', `/projects/${cron.project.id}/cron/jobs`))
  assert.equal(jobs[0].name, 'seen')
})

test('2 §4.4 unknown routes and methods are 404', async () => {
  const cron = await cronProject(it)
  await cron.schedule('job', '0 0 1 1 *', 'select 1')
  for (const [method, path] of [
    ['PUT', 'jobs'],
    ['GET', 'jobs/job'],
    ['PATCH', 'jobs/job'],
    ['POST', 'jobs/job/runs'],
    ['POST', 'jobs/job/run'],
    ['DELETE', 'jobs/job/runs'],
  ] as const)
    assertDataError(await cron.ask(method, path), 'route_not_found')
  assert.equal((await cron.jobs()).length, 1)
})
