// 2 §1, §5, §7: queues require the service_role key.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { queueApi } from '@plinth/contract/queue.ts'
import { userJwt } from '../people.ts'
import { createQueue, idsOf, queuesProject } from '../queue.ts'
import { assertServiceRoleOnly, assertSuspendable, bodyOf, rootOf, shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

test('2 §5 every route accepts the service_role key and rejects every other credential', async () => {
  await assertServiceRoleOnly(it, queueApi)
})

test('1 §1 the queue routes of a suspended project are rejected until it is resumed', async () => {
  await assertSuspendable(it, queueApi)
})

test('2 §7 a rejected request has no effect', async () => {
  const queues = await queuesProject(it)
  const queue = await createQueue(queues)
  const [kept, archived] = await queue.sendBatch(['kept', 'archived'])
  await queue.archive(archived!)
  const { id, anon_key } = queues.project
  for (const shape of shapes)
    for (const [method, path, body] of [
      ['POST', 'queues', { name: 'new' }],
      ['DELETE', `queues/${queue.name}`],
      ['POST', queue.at('send'), { message: 'x' }],
      ['POST', queue.at('send_batch'), { messages: ['x'] }],
      ['POST', queue.at('read'), { vt: 1000 }],
      ['POST', queue.at('pop')],
      ['POST', queue.at('ack'), { msg_id: kept }],
      ['POST', queue.at('archive'), { msg_id: kept }],
      ['POST', queue.at('replay'), { msg_id: archived }],
    ] as const) {
      const call = (options: object) => it.call(method, `${rootOf('queue', id, shape)}/${path}`, options)
      assertDataError(await call({ apikey: anon_key, body }), 'role_not_allowed')
      assertDataError(
        await call({ apikey: anon_key, token: userJwt(queues.project), body }),
        'role_not_allowed',
      )
      assertDataError(await call({ body }), 'unauthorized')
    }
  assert.equal(bodyOf(await queues.get('queues')).length, 1)
  const [read] = await queue.read(0, 10)
  assert.deepEqual([read!.msg_id, read!.read_ct], [kept, 1])
  assert.deepEqual(idsOf(await queue.archived()), [archived])
  assert.equal((await queue.metrics()).total_messages, 2)
})

test('2 §1 the project is taken from the verified key: one key never opens another project', async () => {
  const [mine, theirs] = [await queuesProject(it), await queuesProject(it)]
  const queue = await createQueue(theirs, 'secret')
  await queue.send('x')
  for (const shape of shapes)
    for (const path of ['queues', 'queues/secret/archived', 'queues/secret/metrics'])
      assertDataError(
        await it.call('GET', `${rootOf('queue', theirs.project.id, shape)}/${path}`, {
          token: mine.project.service_role_key,
        }),
        'unauthorized',
      )
})

test('2 §1 queues are not reachable through the row API', async () => {
  const queues = await queuesProject(it)
  const queue = await createQueue(queues, 'hidden')
  await queue.send('secret')
  const { id, anon_key } = queues.project
  const rest = (path: string, method: string, body?: unknown, profile?: string) =>
    it.call(method, `/v1/rest/${id}/${path}`, {
      apikey: anon_key,
      token: userJwt(queues.project),
      body,
      headers: profile ? { 'accept-profile': profile, 'content-profile': profile } : {},
    })
  for (const reply of [
    await rest('q_hidden', 'GET'),
    await rest('q_hidden', 'GET', undefined, 'pgmq'),
    await rest('rpc/read', 'POST', { queue_name: 'hidden', vt: 5, qty: 1 }, 'pgmq'),
    await rest('rpc/pop', 'POST', { queue_name: 'hidden' }, 'pgmq_public'),
  ]) {
    assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status} ${reply.text}`)
    assert.ok(!reply.text.includes('secret'))
  }
  assert.equal((await queue.metrics()).queue_length, 1)
})

test('2 §4.3 unknown routes and methods are 404', async () => {
  const queues = await queuesProject(it)
  const queue = await createQueue(queues)
  for (const [method, path] of [
    ['PUT', 'queues'],
    ['GET', `queues/${queue.name}`],
    ['POST', `queues/${queue.name}`],
    ['GET', queue.at('send')],
    ['GET', queue.at('pop')],
    ['POST', queue.at('metrics')],
    ['POST', queue.at('purge')],
    ['GET', ''],
  ] as const)
    assertDataError(await queues.ask(method, path), 'route_not_found')
})
