// 1 §4.7 and Realtime contract §2–§4: the messages of the Phoenix Channels protocol, in both versions.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Socket } from '../phoenix.ts'
import { encodeBroadcast } from '../phoenix-frames.ts'
import {
  broadcastsBefore,
  type RealtimeApi,
  realtimeProject,
  receivesBroadcast,
  topicOf,
} from '../realtime.ts'
import { shapes } from '../service.ts'
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

const versions = ['1.0.0', '2.0.0'] as const
const parsed = ({ text }: { text: string }) => JSON.parse(text)

test('Realtime contract §3: a heartbeat is answered with its ref and an empty response', async () => {
  const socket = await realtime.connect()
  socket.sendRaw('[null,"7","phoenix","heartbeat",{}]')
  const { message } = await socket.replyTo('7')
  assert.deepEqual(parsed(message), [null, '7', 'phoenix', 'phx_reply', { status: 'ok', response: {} }])
})

test('Realtime contract §2: in 1.0.0 messages are objects in both directions', async () => {
  const socket = await realtime.connect({ version: '1.0.0' })
  socket.sendRaw('{"topic":"phoenix","event":"heartbeat","payload":{},"ref":"7"}')
  const { message } = await socket.replyTo('7')
  const { topic, event, payload, ref } = parsed(message)
  assert.deepEqual(
    { topic, event, payload, ref },
    { topic: 'phoenix', event: 'phx_reply', payload: { status: 'ok', response: {} }, ref: '7' },
  )
})

test('Realtime contract §2: in 1.0.0 a join may omit join_ref, and later messages may include it', async () => {
  const socket = await realtime.connect({ version: '1.0.0' })
  const topic = topicOf()
  const say = (event: string, ref: string, payload: object, more = {}) =>
    socket.sendRaw(JSON.stringify({ topic, event, payload, ref, ...more }))
  say('phx_join', '7', { config: { broadcast: { ack: true } } })
  await socket.replyTo('7')
  for (const [ref, more] of [
    ['8', {}],
    ['9', { join_ref: '7' }],
  ] as const) {
    say('broadcast', ref, { type: 'broadcast', event: 'e', payload: {} }, more)
    assert.equal((await socket.replyTo(ref)).status, 'ok')
  }
})

test('Realtime contract §3: the reply to a join has its refs, and an empty list without bindings', async () => {
  for (const shape of shapes) {
    const socket = await realtime.connect({ shape })
    const topic = topicOf()
    socket.sendRaw(JSON.stringify(['j1', 'j1', topic, 'phx_join', { config: { postgres_changes: [] } }]))
    const { message } = await socket.replyTo('j1')
    const payload = { status: 'ok', response: { postgres_changes: [] } }
    assert.deepEqual(parsed(message), ['j1', 'j1', topic, 'phx_reply', payload])
  }
})

test('Realtime contract §4: a topic is any text after realtime:', async () => {
  const socket = await realtime.connect()
  for (const name of [
    'x',
    'room:1:2',
    'Zimmer für alle 漢字 🙂',
    'a'.repeat(240),
    '*',
    'public',
    '"quoted"\\',
  ])
    await socket.join(topicOf(name))
})

test('Realtime contract §4: an empty topic name is an error with a reason', async () => {
  const socket = await realtime.connect()
  const { status, response } = await socket.tryJoin('realtime:', { config: {} })
  assert.equal(status, 'error')
  assert.match(response.reason, /^TopicNameRequired: ./)
  await socket.join(topicOf())
})

test('Realtime contract §10: a topic of more than 255 bytes is rejected', async () => {
  const socket = await realtime.connect()
  for (const name of ['a'.repeat(300), '漢'.repeat(100)]) {
    const { status, response } = await socket.tryJoin(topicOf(name), { config: {} })
    assert.equal(status, 'error')
    assert.equal(typeof response.reason, 'string')
  }
  await socket.heartbeat()
})

test('Realtime contract §3: leaving gets a reply, then phx_close', async () => {
  for (const version of versions) {
    const socket = await realtime.connect({ version })
    const channel = await socket.join(topicOf())
    const reply = await channel.ask('phx_leave')
    assert.deepEqual([reply.status, reply.response], ['ok', {}])
    const closed = await channel.find('phx_close', ({ event }) => event === 'phx_close')
    const received = channel.received()
    assert.ok(received.indexOf(reply.message) < received.indexOf(closed), 'the answer comes first')
    assert.deepEqual([closed.ref, closed.payload], [channel.joinRef, {}])
    if (version === '2.0.0') assert.equal(closed.joinRef, channel.joinRef)
    await socket.heartbeat()
    await socket.join(channel.topic)
  }
})

test('Realtime contract §3: a left channel receives nothing more', async () => {
  const [leaver, stayer] = [await realtime.connect(), await realtime.connect()]
  const topic = topicOf()
  const left = await leaver.join(topic)
  const stayed = await stayer.join(topic)
  const speaker = await (await realtime.connect()).join(topic)
  await left.leave()
  speaker.broadcast('later')
  await receivesBroadcast(stayed, 'later')
  const again = await leaver.join(topic)
  speaker.broadcast('last')
  assert.deepEqual(await broadcastsBefore(again, 'last'), [])
})

test('Realtime contract §3: a push to a topic that was never joined is an error', async () => {
  for (const version of versions) {
    const socket = await realtime.connect({ version })
    const topic = topicOf()
    const payload = { type: 'broadcast', event: 'x', payload: {} }
    const { status, response, message } = await socket.ask(topic, 'broadcast', payload)
    assert.deepEqual([status, response], ['error', { reason: 'unmatched topic' }])
    assert.equal(message.topic, topic)
  }
})

test('Realtime contract §3: a push to a left topic is an error', async () => {
  const socket = await realtime.connect()
  const channel = await socket.join(topicOf())
  await channel.leave()
  const { status, response } = await channel.ask('presence', { type: 'presence', event: 'untrack' })
  assert.deepEqual([status, response], ['error', { reason: 'unmatched topic' }])
})

test('Realtime contract §3: a second join on a topic closes the first channel and proceeds', async () => {
  const socket = await realtime.connect()
  const topic = topicOf()
  const first = await socket.join(topic, { broadcast: { self: true } })
  const second = await socket.join(topic, { broadcast: { self: true } })
  const closed = await first.find('phx_close', ({ event }) => event === 'phx_close')
  assert.equal(closed.joinRef, first.joinRef)
  second.broadcast('once')
  second.broadcast('end')
  assert.deepEqual(await broadcastsBefore(second, 'end'), [['once', {}]])
  assert.ok(
    !socket.received.some(({ event, joinRef }) => event === 'phx_close' && joinRef === second.joinRef),
    'the second stays open',
  )
})

test('Realtime contract §2: pushes of the server have no join_ref or that of the channel', async () => {
  const socket = await realtime.connect()
  const bindings = { postgres_changes: [{ event: '*', schema: 'public', table: 'markers' }] }
  const channel = await socket.join(topicOf(), {
    ...bindings,
    presence: { enabled: true, key: 'me' },
    broadcast: { self: true },
  })
  await channel.system('ok')
  channel.broadcast('hello')
  await receivesBroadcast(channel, 'hello')
  await realtime.sql(`insert into public.markers values (-1)`)
  await channel.find('a change', ({ event }) => event === 'postgres_changes')
  await channel.find('presence_state', ({ event }) => event === 'presence_state')
  for (const { joinRef, text } of channel.received())
    assert.ok(joinRef === null || joinRef === channel.joinRef, text.slice(0, 300))
})

test('Realtime contract §3: unexpected events are ignored silently', async () => {
  const socket = await realtime.connect()
  const channel = await socket.join(topicOf(), { broadcast: { self: true } })
  const refs = ['surprise', 'postgres_changes', 'phx_error', 'INSERT'].map(event =>
    channel.push(event, { a: 1 }),
  )
  channel.broadcast('after')
  await receivesBroadcast(channel, 'after')
  await socket.heartbeat()
  assert.deepEqual(
    socket.received.filter(({ ref }) => ref !== null && refs.includes(ref)),
    [],
  )
})

test('Realtime contract §4: a socket has several channels, each with its own refs', async () => {
  const socket = await realtime.connect()
  const channels = await Promise.all(
    Array.from({ length: 20 }, () => socket.join(topicOf(), { broadcast: { self: true } })),
  )
  for (const [i, channel] of channels.entries()) channel.broadcast('number', { i })
  for (const [i, channel] of channels.entries()) {
    await receivesBroadcast(channel, 'number')
    channel.broadcast('end')
    assert.deepEqual(await broadcastsBefore(channel, 'end'), [['number', { i }]])
  }
  await channels[0]!.leave()
  channels[1]!.broadcast('still here')
  await receivesBroadcast(channels[1]!, 'still here')
})

test('Realtime contract §10: the number of channels per connection is limited, with an error that says so', async () => {
  const socket = await realtime.connect()
  const replies = await Promise.all(
    Array.from({ length: 250 }, () => socket.tryJoin(topicOf(), { config: {} })),
  )
  const bad = replies.filter(({ status }) => status === 'error')
  assert.ok(bad.length > 0 && bad.length <= 150, `${bad.length} of 250 were refused`)
  for (const { response } of bad)
    assert.match(response.reason, /^(ChannelRateLimitReached|ClientJoinRateLimitReached): ./)
  await socket.heartbeat()
  await (await realtime.connect()).heartbeat()
})

test('Realtime contract §4: booleans may be strings', async () => {
  const socket = await realtime.connect()
  const channel = await socket.join(topicOf(), {
    private: 'false',
    broadcast: { self: 'true', ack: 'true' },
    presence: { enabled: 'true', key: '' },
  })
  const { status } = await socket.replyTo(channel.broadcast('mine'))
  assert.equal(status, 'ok')
  await receivesBroadcast(channel, 'mine')
  await channel.find('presence_state', ({ event }) => event === 'presence_state')
  const quiet = await socket.join(topicOf(), { broadcast: { self: 'false', ack: 'false' } })
  const ref = quiet.broadcast('unheard')
  await realtime.broadcast({ messages: [{ topic: quiet.topic.slice(9), event: 'end', payload: {} }] })
  assert.deepEqual(await broadcastsBefore(quiet, 'end'), [])
  assert.ok(!socket.received.some(message => message.ref === ref))
})

const malformed: [string, string | Uint8Array][] = [
  ['nothing', ''],
  ['no JSON', 'hello'],
  ['half of it', '[null,"1","phoenix"'],
  ['null', 'null'],
  ['a number', '42'],
  ['an empty list', '[]'],
  ['a short list', '[null,"1","phoenix"]'],
  ['a long list', '[null,"1","phoenix","heartbeat",{},1,2,3]'],
  ['an object', '{"topic":1,"event":null}'],
  ['a number for a topic', '[null,"1",5,"phx_join",{}]'],
  ['an object for an event', '[null,"1","realtime:x",{},{}]'],
  ['an object for a ref', '[{},{},"realtime:x","phx_join",{}]'],
  ['a payload of text', '["1","1","realtime:x","phx_join","{}"]'],
  ['no payload', '["1","1","realtime:y","phx_join",null]'],
  ['a list for a config', '["1","1","realtime:z","phx_join",{"config":[1]}]'],
  ['__proto__', '["1","1","realtime:p","phx_join",{"__proto__":{"config":1},"config":{"constructor":1}}]'],
  ['deep nesting', `[null,"1","phoenix","heartbeat",${'['.repeat(20_000)}${']'.repeat(20_000)}]`],
  ['empty bytes', Buffer.alloc(0)],
  ['an unknown kind', Buffer.from([9, 1, 1, 1, 1])],
  ['a kind of the server', Buffer.from([4, 1, 1, 0, 1, 97, 97, 123, 125])],
  ['a kind alone', Buffer.from([3])],
  ['lengths that lie', Buffer.from([3, 255, 255, 255, 255, 255, 1, 65])],
  [
    'JSON that is none',
    Buffer.concat([encodeBroadcast({ topic: 'realtime:x', event: 'e', payload: 1 }), Buffer.from('}')]),
  ],
  ['text that is not UTF-8 in bytes', Buffer.from([3, 0, 0, 1, 1, 0, 1, 255, 254, 49])],
]

for (const [what, data] of malformed)
  test(`Realtime contract §2: a malformed frame (${what}) does not affect other sockets`, async () => {
    const witness = await realtime.connect()
    const socket: Socket = await realtime.connect()
    socket.sendRaw(data)
    await Promise.race([socket.heartbeat().catch(() => {}), socket.closed])
    await witness.heartbeat()
    const channel = await witness.join(topicOf(), { broadcast: { self: true } })
    channel.broadcast('alive')
    await receivesBroadcast(channel, 'alive')
  })

const oddJoins: unknown[] = [
  null,
  [],
  'x',
  { config: null },
  { config: 'x' },
  { config: { broadcast: null, presence: null, postgres_changes: null, private: null } },
  { config: { broadcast: 'x', presence: [], postgres_changes: {}, private: {} } },
  { config: { presence: { key: 5, enabled: 'perhaps' } } },
  { config: { postgres_changes: [null] } },
  { config: { postgres_changes: ['x', 1, []] } },
  { config: { postgres_changes: [{}] } },
  { config: { postgres_changes: [{ event: 1, schema: 2, table: 3, filter: 4, select: 5 }] } },
  { config: { postgres_changes: [{ event: '*', schema: 'public', table: { a: 1 }, filter: ['id=eq.1'] }] } },
  {
    config: {
      postgres_changes: [{ event: '*', schema: 'public', table: 'markers', select: [1, null, 'nothing'] }],
    },
  },
  { config: { broadcast: { replay: { since: 'x', limit: -1 } } } },
  { config: {}, access_token: 5 },
  { config: {}, access_token: {} },
]
test('Realtime contract §4: a join of any shape gets a reply, and does not affect others', async () => {
  const witness = await realtime.connect()
  const channel = await witness.join(topicOf(), { broadcast: { self: true } })
  for (const payload of oddJoins) {
    const socket = await realtime.connect()
    const { status, message } = await socket.tryJoin(topicOf(), payload)
    assert.ok(['ok', 'error'].includes(status), message.text)
    if (status === 'error') assert.equal(typeof message.payload.response.reason, 'string', message.text)
    await socket.heartbeat()
    await socket.close()
  }
  channel.broadcast('alive')
  await receivesBroadcast(channel, 'alive')
})

test('Realtime contract §3: messages of any shape on a channel do not affect others', async () => {
  const topic = topicOf()
  const [odd, subscription] = [
    await (await realtime.connect()).join(topic),
    await (await realtime.connect()).join(topic, { presence: { enabled: true, key: 'me' } }),
  ]
  const payloads = [null, [], 'x', 5, {}, { type: 'broadcast' }, { type: 'broadcast', event: 5, payload: {} }]
  const presences = [
    { type: 'presence', event: 5 },
    { type: 'presence', event: 'dance', payload: {} },
  ]
  for (const event of ['broadcast', 'presence', 'access_token'])
    for (const payload of [...payloads, ...presences, { access_token: {} }]) odd.push(event, payload)
  odd.push('phx_join', {})
  await odd.socket.heartbeat()
  const speaker = await (await realtime.connect()).join(topic)
  speaker.broadcast('alive')
  await receivesBroadcast(subscription, 'alive')
})
