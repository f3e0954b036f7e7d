// 1 §4.7 and Realtime contract §2, §6: messages from one client to the others over the socket.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { encodeBroadcast } from '../phoenix-frames.ts'
import {
  broadcastsBefore,
  broadcastsUntilNow,
  type RealtimeApi,
  realtimeProject,
  receivesBroadcast,
  topicName,
  topicOf,
} from '../realtime.ts'
import { ada } from '../storage.ts'
import { type Target, target } from '../target.ts'

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

test('Realtime contract §6: a broadcast reaches the other members of the topic in the same format', async () => {
  const topic = topicOf()
  const [speaker, anon, user, service] = [
    await join(topic),
    await join(topic, {}, { shape: 'alias' }),
    await join(topic, {}, { as: ada }),
    await join(topic, {}, { as: 'service_role' }),
  ]
  const payload = { a: [1, null, 'x'], 漢: '🙂', n: 1.5 }
  speaker.broadcast('greeting', payload)
  for (const channel of [anon, user, service]) {
    const message = await receivesBroadcast(channel, 'greeting')
    const { meta: _, ...envelope } = message.payload
    assert.deepEqual(envelope, { type: 'broadcast', event: 'greeting', payload })
    assert.deepEqual([message.event, message.topic, message.ref], ['broadcast', topic, null])
  }
})

test('Realtime contract §2: clients of both versions receive each other', async () => {
  const topic = topicOf()
  const [old, current] = [await join(topic, {}, { version: '1.0.0' }), await join(topic)]
  old.broadcast('from old', { n: 1 })
  const received = await receivesBroadcast(current, 'from old')
  assert.deepEqual(received.payload.payload, { n: 1 })
  current.broadcast('from current', { n: 2 })
  const { text } = await receivesBroadcast(old, 'from current')
  const { topic: at, event, payload, ref } = JSON.parse(text)
  assert.deepEqual([at, event, ref], [topic, 'broadcast', null])
  assert.partialDeepStrictEqual(payload, { type: 'broadcast', event: 'from current', payload: { n: 2 } })
})

test('Realtime contract §6: the sender receives its own broadcast only with self', async () => {
  const topic = topicOf()
  const [deaf, vain] = [
    await join(topic, { broadcast: { self: false } }),
    await join(topic, { broadcast: { self: true } }),
  ]
  deaf.broadcast('one')
  await receivesBroadcast(vain, 'one')
  vain.broadcast('two')
  await receivesBroadcast(vain, 'two')
  assert.deepEqual(await broadcastsUntilNow(realtime, deaf), [['two', {}]])
  assert.deepEqual(await broadcastsUntilNow(realtime, vain), [
    ['one', {}],
    ['two', {}],
  ])
})

test('Realtime contract §6: the sender gets a reply only with ack', async () => {
  for (const version of ['1.0.0', '2.0.0'] as const) {
    const topic = topicOf()
    const acked = await join(topic, { broadcast: { ack: true } }, { version })
    const reply = await acked.socket.replyTo(acked.broadcast('x', { a: 1 }))
    assert.deepEqual([reply.status, reply.response, reply.message.topic], ['ok', {}, topic])
    if (version === '2.0.0') assert.equal(reply.message.joinRef, acked.joinRef)
    const plain = await join(topic, { broadcast: { ack: false } }, { version })
    const ref = plain.broadcast('y')
    await receivesBroadcast(acked, 'y')
    await plain.socket.heartbeat()
    assert.ok(!plain.received().some(message => message.ref === ref))
  }
})

test('Realtime contract §2: a binary push of JSON reaches both versions', async () => {
  const topic = topicOf()
  const [speaker, old, current] = [
    await join(topic, { broadcast: { self: true, ack: true } }),
    await join(topic, {}, { version: '1.0.0' }),
    await join(topic),
  ]
  const payload = { a: 1, text: 'ä', deep: { list: [1, 2] } }
  const { joinRef } = speaker
  const ref = speaker.socket.pushBroadcast({ topic, event: 'json', payload, joinRef })
  for (const channel of [speaker, old, current])
    assert.deepEqual((await receivesBroadcast(channel, 'json')).payload.payload, payload)
  const reply = await speaker.socket.replyTo(ref)
  assert.deepEqual([reply.status, reply.response, reply.message.isBinary], ['ok', {}, false])
})

test('Realtime contract §2: binary payloads arrive unchanged, and are not sent to clients of 1.0.0', async () => {
  const topic = topicOf()
  const [speaker, old, current] = [
    await join(topic),
    await join(topic, {}, { version: '1.0.0' }),
    await join(topic, {}, { as: ada }),
  ]
  const bytes = Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 256))
  for (const payload of [bytes, Buffer.alloc(0), Buffer.from('{"not":"json"')])
    speaker.socket.pushBroadcast({ topic, event: 'bytes', payload, joinRef: speaker.joinRef })
  const got = await broadcastsUntilNow(realtime, current)
  assert.deepEqual(
    got.map(([event, payload]) => [event, Buffer.isBuffer(payload) && payload.toString('hex')]),
    [bytes, Buffer.alloc(0), Buffer.from('{"not":"json"')].map(each => ['bytes', each.toString('hex')]),
  )
  assert.deepEqual(
    (await broadcastsUntilNow(realtime, old)).filter(([event]) => event === 'bytes'),
    [],
  )
})

test('Realtime contract §2: event names may use any script, up to 255 bytes', async () => {
  const topic = topicOf('Raum 漢字')
  const [speaker, subscription] = [await join(topic), await join(topic)]
  for (const event of ['Grüße 🙂', 'e'.repeat(255), 'a"b\\c', ' ']) {
    speaker.broadcast(event, { text: true })
    await receivesBroadcast(subscription, event)
    speaker.socket.pushBroadcast({
      topic,
      event: `${event.slice(0, 200)}!`,
      payload: {},
      joinRef: speaker.joinRef,
    })
    await receivesBroadcast(subscription, `${event.slice(0, 200)}!`)
  }
})

test('Realtime contract §2: an invalid JSON payload in a binary push does not affect others', async () => {
  const topic = topicOf()
  const [subscription, old] = [await join(topic), await join(topic, {}, { version: '1.0.0' })]
  const inner = [
    '{',
    '',
    '}',
    `{}},"event":"spoofed","payload":{"a":1}`,
    '1,2',
    `{"a":1}{"b":2}`,
    '"\\x"',
    'undefined',
  ]
  const metas = ['{', 'x', `{}},"event":"spoofed"`, '"text"']
  const frames = [
    ...inner.map(text => ({ meta: '', text })),
    ...metas.map(meta => ({ meta, text: '{"good":1}' })),
    { meta: '', text: Buffer.from([0x22, 0xff, 0xfe, 0x22]) },
  ]
  for (const { meta, text } of frames) {
    const speaker = await join(topic)
    const head = encodeBroadcast({
      topic,
      event: 'odd',
      payload: Buffer.from(text),
      joinRef: speaker.joinRef,
      meta,
    })
    head[6] = 1
    speaker.socket.sendRaw(head)
    await Promise.race([speaker.socket.heartbeat().catch(() => {}), speaker.socket.closed])
  }
  for (const channel of [subscription, old]) {
    const got = await broadcastsUntilNow(realtime, channel)
    for (const [event, payload] of got) {
      assert.equal(event, 'odd')
      if (typeof payload === 'object') assert.deepEqual(payload, { good: 1 })
    }
  }
})

test('Realtime contract §6: broadcasts of one sender arrive in order', async () => {
  const topic = topicOf()
  const [speaker, subscription] = [await join(topic), await join(topic)]
  for (let i = 0; i < 200; i++) {
    const joinRef = speaker.joinRef
    if (i % 3 === 0) speaker.socket.pushBroadcast({ topic, event: 'n', payload: { i }, joinRef })
    else speaker.broadcast('n', { i })
  }
  speaker.broadcast('end')
  const got = await broadcastsBefore(subscription, 'end')
  assert.deepEqual(
    got.map(([, { i }]) => i),
    Array.from({ length: 200 }, (_, i) => i),
  )
})

test('Realtime contract §6: broadcasts do not reach another topic or project', async () => {
  const other = await realtimeProject(it)
  try {
    const topic = topicOf()
    const [speaker, neighbour] = [await join(topic), await join(`${topic}x`)]
    const foreign = await (await other.connect()).join(topic)
    speaker.broadcast('secret')
    assert.deepEqual(await broadcastsUntilNow(realtime, neighbour), [])
    await other.broadcast({ messages: [{ topic: topicName(foreign), event: 'end', payload: {} }] })
    assert.deepEqual(await broadcastsBefore(foreign, 'end'), [])
  } finally {
    await other.closeAll()
  }
})

test('Realtime contract §2: frames of every length arrive complete', async () => {
  const topic = topicOf('lengths')
  const [speaker, subscription, old] = [
    await join(topic, { broadcast: { ack: true } }),
    await join(topic),
    await join(topic, {}, { version: '1.0.0' }),
  ]
  const lengths = [...Array(150).keys(), ...Array.from({ length: 160 }, (_, i) => 65_400 + i)]
  for (const length of lengths) {
    await speaker.socket.replyTo(speaker.broadcast('text', { x: 'x'.repeat(length) }))
    const payload = Buffer.alloc(length, 'y')
    await speaker.socket.replyTo(
      speaker.socket.pushBroadcast({ topic, event: 'bytes', payload, joinRef: speaker.joinRef }),
    )
  }
  const of = (kind: string, got: [string, any][]) => got.filter(([event]) => event === kind)
  const got = await broadcastsUntilNow(realtime, subscription)
  assert.deepEqual(
    of('text', got).map(([, { x }]) => x.length),
    lengths,
  )
  assert.deepEqual(
    of('bytes', got).map(([, bytes]) => bytes.length),
    lengths,
  )
  assert.deepEqual(
    of('text', await broadcastsUntilNow(realtime, old)).map(([, { x }]) => x.length),
    lengths,
  )
})

test('Realtime contract §6: a payload of 1 MB arrives, and one above the limit is an error that affects nobody else', async () => {
  const topic = topicOf()
  const [speaker, subscription] = [await join(topic, { broadcast: { ack: true } }), await join(topic)]
  const large = 'x'.repeat(1_000_000)
  const { status } = await speaker.socket.replyTo(speaker.broadcast('large', { large }))
  assert.equal(status, 'ok')
  const message = await receivesBroadcast(subscription, 'large')
  assert.ok(message.payload.payload.large === large, 'another payload')
  const ref = speaker.broadcast('too large', { large: 'x'.repeat(4_000_000) })
  const outcome = await Promise.race([
    speaker.socket.replyTo(ref).then(
      reply => reply.status,
      () => 'closed',
    ),
    speaker.socket.closed.then(() => 'closed'),
  ])
  assert.ok(['error', 'closed'].includes(outcome), outcome)
  assert.deepEqual(
    (await broadcastsUntilNow(realtime, subscription)).map(([event]) => event),
    ['large'],
  )
})

test('Realtime contract §6: public and private topics of the same name are separate', async () => {
  const topic = topicOf()
  const [open, secret] = [
    await join(topic, {}, { as: 'service_role' }),
    await join(topic, { private: true }, { as: 'service_role' }),
  ]
  const [openSpeaker, secretSpeaker] = [
    await join(topic, {}, { as: 'service_role' }),
    await join(topic, { private: true, broadcast: { ack: true } }, { as: 'service_role' }),
  ]
  openSpeaker.broadcast('open')
  await secretSpeaker.socket.replyTo(secretSpeaker.broadcast('secret'))
  const token = realtime.project.service_role_key
  const messages = [
    { topic: topicName(open), event: 'open by HTTP', payload: {} },
    { topic: topicName(open), event: 'secret by HTTP', payload: {}, private: true },
  ]
  assert.equal((await realtime.broadcast({ messages }, { apikey: token, token })).status, 202)
  await receivesBroadcast(open, 'open by HTTP')
  await receivesBroadcast(secret, 'secret by HTTP')
  assert.deepEqual(
    (await broadcastsUntilNow(realtime, open)).map(([event]) => event),
    ['open', 'open by HTTP'],
  )
  const end = [{ topic: topicName(open), event: 'end', payload: {}, private: true }]
  await realtime.broadcast({ messages: end }, { apikey: token, token })
  assert.deepEqual(
    (await broadcastsBefore(secret, 'end')).map(([event]) => event),
    ['secret', 'secret by HTTP'],
  )
})

test('Realtime contract §10: too many messages per second are a system error, and the channel is closed', async () => {
  const hurried = await realtimeProject(it, 'select 1', { realtime_max_events_per_second: 10 })
  try {
    const channel = await (await hurried.connect()).join(topicOf())
    for (let i = 0; i < 300; i++) channel.broadcast('n', { i })
    const summary = await channel.find(
      'a system error',
      ({ event, payload }) => event === 'system' && payload.status === 'error',
    )
    assert.equal(typeof summary.payload.message, 'string')
    await channel.find('phx_close', ({ event }) => event === 'phx_close')
  } finally {
    await hurried.closeAll()
  }
})
