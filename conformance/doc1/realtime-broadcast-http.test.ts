// 1 §4.7 and Realtime contract §6: messages sent over HTTP.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject } from '../people.ts'
import {
  broadcastsBefore,
  broadcastsUntilNow,
  type RealtimeApi,
  realtimeProject,
  receivesBroadcast,
  topicName,
  topicOf,
} from '../realtime.ts'
import { shapes } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let realtime: RealtimeApi
before(async () => {
  it = await target()
  realtime = await realtimeProject(it)
})
after(async () => {
  await realtime.closeAll()
  await it.stop()
})

const join = async (topic: string, config: unknown = {}, options = {}) =>
  (await realtime.connect(options)).join(topic, config)

for (const shape of shapes) {
  test(`Realtime contract §6: a batch over HTTP is 202 without a body and reaches the topics (${shape} address)`, async () => {
    const [one, two] = [await join(topicOf()), await join(topicOf(), {}, { version: '1.0.0' })]
    const messages = [
      { topic: topicName(one), event: 'first', payload: { n: 1 } },
      { topic: topicName(two), event: 'second', payload: { n: 2 }, private: false },
      { topic: topicName(one), event: 'third', payload: {} },
    ]
    const reply = await realtime.broadcast({ messages }, { shape })
    assert.deepEqual([reply.status, reply.text], [202, ''])
    assert.deepEqual(await broadcastsBefore(one, 'third'), [['first', { n: 1 }]])
    assert.deepEqual((await receivesBroadcast(two, 'second')).payload.payload, { n: 2 })
  })

  test(`Realtime contract §6: a single message over HTTP takes its names from the path (${shape} address)`, async () => {
    const channel = await join(topicOf('a room/of its own'))
    const path = `api/broadcast/${encodeURIComponent(topicName(channel))}/events/${encodeURIComponent('an event')}`
    const reply = await realtime.broadcast({ n: 1 }, { shape, path })
    assert.equal(reply.status, 202, reply.text)
    assert.deepEqual((await receivesBroadcast(channel, 'an event')).payload.payload, { n: 1 })
  })
}

test('Realtime contract §1: the suffixes that the client appends to the socket URL are accepted', async () => {
  const channel = await join(topicOf())
  const apikey = realtime.project.anon_key
  const query = `?apikey=${apikey}&vsn=2.0.0`
  const messages = [{ topic: topicName(channel), event: 'batch', payload: {} }]
  assert.equal((await realtime.broadcast({ messages }, { path: `api/broadcast${query}` })).status, 202)
  const path = `api/broadcast/${topicName(channel)}/events/single${query}`
  assert.equal((await realtime.broadcast({}, { path, token: apikey })).status, 202)
  await receivesBroadcast(channel, 'batch')
  await receivesBroadcast(channel, 'single')
})

test('Realtime contract §6: binary bodies over HTTP are delivered as bytes, other media types are 415', async () => {
  const topic = topicOf()
  const [channel, old] = [await join(topic), await join(topic, {}, { version: '1.0.0' })]
  const path = `api/broadcast/${topicName(channel)}/events/bytes`
  const raw = Buffer.from([0, 1, 2, 254, 255])
  const reply = await realtime.broadcast(undefined, {
    path,
    raw,
    headers: { 'content-type': 'application/octet-stream' },
  })
  assert.equal(reply.status, 202, reply.text)
  const message = await receivesBroadcast(channel, 'bytes')
  assert.ok(message.isBinary)
  assert.equal(message.payload.payload.toString('hex'), raw.toString('hex'))
  assert.deepEqual(await broadcastsUntilNow(realtime, old), [])
  for (const type of ['text/plain', 'application/xml'])
    assert.equal(
      (await realtime.broadcast(undefined, { path, raw: 'x', headers: { 'content-type': type } })).status,
      415,
      type,
    )
})

test('Realtime contract §6: a message without topic, event or payload is 422, and nothing of the batch is sent', async () => {
  const channel = await join(topicOf())
  const good = { topic: topicName(channel), event: 'good', payload: {} }
  for (const lacking of ['topic', 'event', 'payload'] as const) {
    const { [lacking]: _, ...bad } = good
    const reply = await realtime.broadcast({ messages: [good, bad] })
    assert.equal(reply.status, 422, `${lacking}: ${reply.status} ${reply.text}`)
    assert.equal(typeof reply.body.errors, 'object', reply.text)
  }
  for (const body of [{}, { messages: 'x' }, { messages: [1] }]) {
    const { status, text } = await realtime.broadcast(body)
    assert.ok(status === 422 || status === 400, `${JSON.stringify(body)}: ${status} ${text}`)
  }
  assert.deepEqual(await broadcastsUntilNow(realtime, channel), [])
})

test('Realtime contract §6: a message above the size limit is 422', async () => {
  const channel = await join(topicOf())
  const payload = { large: 'x'.repeat(3_500_000) }
  const reply = await realtime.broadcast({
    messages: [{ topic: topicName(channel), event: 'large', payload }],
  })
  assert.equal(reply.status, 422, `${reply.status} ${reply.text.slice(0, 300)}`)
  assert.deepEqual(await broadcastsUntilNow(realtime, channel), [])
})

test('1 §5.1 broadcasting over HTTP needs a credential of the project', async () => {
  const other = await createProject(it)
  const channel = await join(topicOf())
  const messages = [{ topic: topicName(channel), event: 'x', payload: {} }]
  const single = `api/broadcast/${topicName(channel)}/events/x`
  for (const apikey of [undefined, 'wrong', other.anon_key])
    for (const [body, path] of [
      [{ messages }, 'api/broadcast'],
      [{}, single],
    ] as const)
      assertDataError(await realtime.broadcast(body, { apikey, path }), 'unauthorized')
  assert.deepEqual(await broadcastsUntilNow(realtime, channel), [])
})
