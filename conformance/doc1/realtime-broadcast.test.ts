// 1 §4.7 and Realtime contract §2, §6: messages from one client to the others, over the socket and over HTTP.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createProject } from '../people.ts'
import type { Channel } from '../phoenix.ts'
import { encodeBroadcast } from '../phoenix-frames.ts'
import { heard, heardBefore, type RealtimeApi, realtimeProject, topicOf } from '../realtime.ts'
import { shapes } from '../service.ts'
import { ada } from '../storage.ts'
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

const nameOf = ({ topic }: Channel) => topic.slice('realtime:'.length)
const join = async (topic: string, config: unknown = {}, options = {}) =>
  (await realtime.connect(options)).join(topic, config)
/** Sent over HTTP after all the rest: what has not come before it does not come. */
async function marked(channel: Channel): Promise<[string, any][]> {
  const event = `marker ${Math.random()}`
  const reply = await realtime.broadcast({ messages: [{ topic: nameOf(channel), event, payload: {} }] })
  assert.equal(reply.status, 202, reply.text)
  return (await heardBefore(channel, event)).filter(([name]) => !name.startsWith('marker '))
}

test('Realtime contract §6: a broadcast reaches the others on the topic, in the same envelope', async () => {
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
    const message = await heard(channel, 'greeting')
    const { meta: _, ...envelope } = message.payload
    assert.deepEqual(envelope, { type: 'broadcast', event: 'greeting', payload })
    assert.deepEqual([message.event, message.topic, message.ref], ['broadcast', topic, null])
  }
})

test('Realtime contract §2: clients of both versions understand each other', async () => {
  const topic = topicOf()
  const [old, current] = [await join(topic, {}, { version: '1.0.0' }), await join(topic)]
  old.broadcast('from old', { n: 1 })
  const received = await heard(current, 'from old')
  assert.deepEqual(received.payload.payload, { n: 1 })
  current.broadcast('from current', { n: 2 })
  const { text } = await heard(old, 'from current')
  const { topic: at, event, payload, ref } = JSON.parse(text)
  assert.deepEqual([at, event, ref], [topic, 'broadcast', null])
  assert.partialDeepStrictEqual(payload, { type: 'broadcast', event: 'from current', payload: { n: 2 } })
})

test('Realtime contract §6: the sender hears itself only where it asked for that', async () => {
  const topic = topicOf()
  const [deaf, vain] = [
    await join(topic, { broadcast: { self: false } }),
    await join(topic, { broadcast: { self: true } }),
  ]
  deaf.broadcast('one')
  await heard(vain, 'one')
  vain.broadcast('two')
  await heard(vain, 'two')
  assert.deepEqual(await marked(deaf), [['two', {}]])
  assert.deepEqual(await marked(vain), [
    ['one', {}],
    ['two', {}],
  ])
})

test('Realtime contract §6: with ack the sender is answered, without it not at all', async () => {
  for (const version of ['1.0.0', '2.0.0'] as const) {
    const topic = topicOf()
    const acked = await join(topic, { broadcast: { ack: true } }, { version })
    const reply = await acked.socket.replyTo(acked.broadcast('x', { a: 1 }))
    assert.deepEqual([reply.status, reply.response, reply.message.topic], ['ok', {}, topic])
    if (version === '2.0.0') assert.equal(reply.message.joinRef, acked.joinRef)
    const plain = await join(topic, { broadcast: { ack: false } }, { version })
    const ref = plain.broadcast('y')
    await heard(acked, 'y')
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
    assert.deepEqual((await heard(channel, 'json')).payload.payload, payload)
  const reply = await speaker.socket.replyTo(ref)
  assert.deepEqual([reply.status, reply.response, reply.message.isBinary], ['ok', {}, false])
})

test('Realtime contract §2: binary payloads arrive byte by byte, and not at all with clients of 1.0.0', async () => {
  const topic = topicOf()
  const [speaker, old, current] = [
    await join(topic),
    await join(topic, {}, { version: '1.0.0' }),
    await join(topic, {}, { as: ada }),
  ]
  const bytes = Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 256))
  for (const payload of [bytes, Buffer.alloc(0), Buffer.from('{"not":"json"')])
    speaker.socket.pushBroadcast({ topic, event: 'bytes', payload, joinRef: speaker.joinRef })
  const got = await marked(current)
  assert.deepEqual(
    got.map(([event, payload]) => [event, Buffer.isBuffer(payload) && payload.toString('hex')]),
    [bytes, Buffer.alloc(0), Buffer.from('{"not":"json"')].map(each => ['bytes', each.toString('hex')]),
  )
  assert.deepEqual(
    (await marked(old)).filter(([event]) => event === 'bytes'),
    [],
  )
})

test('Realtime contract §2: names of events may be of any script, up to 255 bytes', async () => {
  const topic = topicOf('Raum 漢字')
  const [speaker, listener] = [await join(topic), await join(topic)]
  for (const event of ['Grüße 🙂', 'e'.repeat(255), 'a"b\\c', ' ']) {
    speaker.broadcast(event, { text: true })
    await heard(listener, event)
    speaker.socket.pushBroadcast({
      topic,
      event: `${event.slice(0, 200)}!`,
      payload: {},
      joinRef: speaker.joinRef,
    })
    await heard(listener, `${event.slice(0, 200)}!`)
  }
})

test('Realtime contract §2: bytes that call themselves JSON and are none confuse nobody', async () => {
  const topic = topicOf()
  const [listener, old] = [await join(topic), await join(topic, {}, { version: '1.0.0' })]
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
  for (const channel of [listener, old]) {
    const got = await marked(channel)
    for (const [event, payload] of got) {
      assert.equal(event, 'odd')
      if (typeof payload === 'object') assert.deepEqual(payload, { good: 1 })
    }
  }
})

test('Realtime contract §6: broadcasts of one sender arrive in their order', async () => {
  const topic = topicOf()
  const [speaker, listener] = [await join(topic), await join(topic)]
  for (let i = 0; i < 200; i++) {
    const joinRef = speaker.joinRef
    if (i % 3 === 0) speaker.socket.pushBroadcast({ topic, event: 'n', payload: { i }, joinRef })
    else speaker.broadcast('n', { i })
  }
  speaker.broadcast('end')
  const got = await heardBefore(listener, 'end')
  assert.deepEqual(
    got.map(([, { i }]) => i),
    Array.from({ length: 200 }, (_, i) => i),
  )
})

test('Realtime contract §6: nothing is heard on another topic, or in another project', async () => {
  const other = await realtimeProject(it)
  try {
    const topic = topicOf()
    const [speaker, neighbour] = [await join(topic), await join(`${topic}x`)]
    const foreign = await (await other.connect()).join(topic)
    speaker.broadcast('secret')
    assert.deepEqual(await marked(neighbour), [])
    await other.broadcast({ messages: [{ topic: nameOf(foreign), event: 'end', payload: {} }] })
    assert.deepEqual(await heardBefore(foreign, 'end'), [])
  } finally {
    await other.closeAll()
  }
})

test('Realtime contract §2: frames of every length arrive whole', async () => {
  const topic = topicOf('lengths')
  const [speaker, listener, old] = [
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
  const got = await marked(listener)
  assert.deepEqual(
    of('text', got).map(([, { x }]) => x.length),
    lengths,
  )
  assert.deepEqual(
    of('bytes', got).map(([, bytes]) => bytes.length),
    lengths,
  )
  assert.deepEqual(
    of('text', await marked(old)).map(([, { x }]) => x.length),
    lengths,
  )
})

test('Realtime contract §6: a payload of a megabyte arrives; one beyond the limit is an error, and hurts nobody else', async () => {
  const topic = topicOf()
  const [speaker, listener] = [await join(topic, { broadcast: { ack: true } }), await join(topic)]
  const large = 'x'.repeat(1_000_000)
  const { status } = await speaker.socket.replyTo(speaker.broadcast('large', { large }))
  assert.equal(status, 'ok')
  const message = await heard(listener, 'large')
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
    (await marked(listener)).map(([event]) => event),
    ['large'],
  )
})

for (const shape of shapes) {
  test(`Realtime contract §6: a batch over HTTP is 202 without a body and reaches the topics (${shape} address)`, async () => {
    const [one, two] = [await join(topicOf()), await join(topicOf(), {}, { version: '1.0.0' })]
    const messages = [
      { topic: nameOf(one), event: 'first', payload: { n: 1 } },
      { topic: nameOf(two), event: 'second', payload: { n: 2 }, private: false },
      { topic: nameOf(one), event: 'third', payload: {} },
    ]
    const reply = await realtime.broadcast({ messages }, { shape })
    assert.deepEqual([reply.status, reply.text], [202, ''])
    assert.deepEqual(await heardBefore(one, 'third'), [['first', { n: 1 }]])
    assert.deepEqual((await heard(two, 'second')).payload.payload, { n: 2 })
  })

  test(`Realtime contract §6: a single message over HTTP takes its names from the path (${shape} address)`, async () => {
    const channel = await join(topicOf('a room/of its own'))
    const path = `api/broadcast/${encodeURIComponent(nameOf(channel))}/events/${encodeURIComponent('an event')}`
    const reply = await realtime.broadcast({ n: 1 }, { shape, path })
    assert.equal(reply.status, 202, reply.text)
    assert.deepEqual((await heard(channel, 'an event')).payload.payload, { n: 1 })
  })
}

test('Realtime contract §1: what the client appends to the addresses from its socket is let pass', async () => {
  const channel = await join(topicOf())
  const apikey = realtime.project.anon_key
  const query = `?apikey=${apikey}&vsn=2.0.0`
  const messages = [{ topic: nameOf(channel), event: 'batch', payload: {} }]
  assert.equal((await realtime.broadcast({ messages }, { path: `api/broadcast${query}` })).status, 202)
  const path = `api/broadcast/${nameOf(channel)}/events/single${query}`
  assert.equal((await realtime.broadcast({}, { path, token: apikey })).status, 202)
  await heard(channel, 'batch')
  await heard(channel, 'single')
})

test('Realtime contract §6: bytes over HTTP are delivered as bytes; other types are 415', async () => {
  const topic = topicOf()
  const [channel, old] = [await join(topic), await join(topic, {}, { version: '1.0.0' })]
  const path = `api/broadcast/${nameOf(channel)}/events/bytes`
  const raw = Buffer.from([0, 1, 2, 254, 255])
  const reply = await realtime.broadcast(undefined, {
    path,
    raw,
    headers: { 'content-type': 'application/octet-stream' },
  })
  assert.equal(reply.status, 202, reply.text)
  const message = await heard(channel, 'bytes')
  assert.ok(message.isBinary)
  assert.equal(message.payload.payload.toString('hex'), raw.toString('hex'))
  assert.deepEqual(await marked(old), [])
  for (const type of ['text/plain', 'application/xml'])
    assert.equal(
      (await realtime.broadcast(undefined, { path, raw: 'x', headers: { 'content-type': type } })).status,
      415,
      type,
    )
})

test('Realtime contract §6: a message that lacks its topic, event or payload is 422, and none of the batch is sent', async () => {
  const channel = await join(topicOf())
  const good = { topic: nameOf(channel), event: 'good', payload: {} }
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
  assert.deepEqual(await marked(channel), [])
})

test('Realtime contract §6: a message beyond the limit is 422', async () => {
  const channel = await join(topicOf())
  const payload = { large: 'x'.repeat(3_500_000) }
  const reply = await realtime.broadcast({ messages: [{ topic: nameOf(channel), event: 'large', payload }] })
  assert.equal(reply.status, 422, `${reply.status} ${reply.text.slice(0, 300)}`)
  assert.deepEqual(await marked(channel), [])
})

test('1 §5.1 broadcasting over HTTP needs a credential of the project', async () => {
  const other = await createProject(it)
  const channel = await join(topicOf())
  const messages = [{ topic: nameOf(channel), event: 'x', payload: {} }]
  const single = `api/broadcast/${nameOf(channel)}/events/x`
  for (const apikey of [undefined, 'wrong', other.anon_key])
    for (const [body, path] of [
      [{ messages }, 'api/broadcast'],
      [{}, single],
    ] as const)
      assertDataError(await realtime.broadcast(body, { apikey, path }), 'unauthorized')
  assert.deepEqual(await marked(channel), [])
})

test('Realtime contract §6: public and private topics of one name are apart', async () => {
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
    { topic: nameOf(open), event: 'open by HTTP', payload: {} },
    { topic: nameOf(open), event: 'secret by HTTP', payload: {}, private: true },
  ]
  assert.equal((await realtime.broadcast({ messages }, { apikey: token, token })).status, 202)
  await heard(open, 'open by HTTP')
  await heard(secret, 'secret by HTTP')
  assert.deepEqual(
    (await marked(open)).map(([event]) => event),
    ['open', 'open by HTTP'],
  )
  const end = [{ topic: nameOf(open), event: 'end', payload: {}, private: true }]
  await realtime.broadcast({ messages: end }, { apikey: token, token })
  assert.deepEqual(
    (await heardBefore(secret, 'end')).map(([event]) => event),
    ['secret', 'secret by HTTP'],
  )
})

test('Realtime contract §10: too many messages a second are told as a system error, and the channel is closed', async () => {
  const hurried = await realtimeProject(it, 'select 1', { realtime_max_events_per_second: 10 })
  try {
    const channel = await (await hurried.connect()).join(topicOf())
    for (let i = 0; i < 300; i++) channel.broadcast('n', { i })
    const told = await channel.find(
      'a system error',
      ({ event, payload }) => event === 'system' && payload.status === 'error',
    )
    assert.equal(typeof told.payload.message, 'string')
    await channel.find('phx_close', ({ event }) => event === 'phx_close')
  } finally {
    await hurried.closeAll()
  }
})
