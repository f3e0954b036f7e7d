// 1 §4.7 and Realtime contract §2–§4, §8: the messages of the Phoenix Channels protocol, in both versions.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { nowSeconds, userJwt } from '../people.ts'
import type { Socket } from '../phoenix.ts'
import { encodeBroadcast } from '../phoenix-frames.ts'
import { broadcastsOf, heard, heardBefore, type RealtimeApi, realtimeProject, topicOf } from '../realtime.ts'
import { shapes } from '../service.ts'
import { ada, bob } from '../storage.ts'
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

test('Realtime contract §2: in 1.0.0 messages are objects both ways', async () => {
  const socket = await realtime.connect({ version: '1.0.0' })
  socket.sendRaw('{"topic":"phoenix","event":"heartbeat","payload":{},"ref":"7"}')
  const { message } = await socket.replyTo('7')
  const { topic, event, payload, ref } = parsed(message)
  assert.deepEqual(
    { topic, event, payload, ref },
    { topic: 'phoenix', event: 'phx_reply', payload: { status: 'ok', response: {} }, ref: '7' },
  )
})

test('Realtime contract §2: in 1.0.0 a join may leave out its join_ref, and what follows may name it', async () => {
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

test('Realtime contract §3: a join is answered with its refs, and an empty list where nothing was asked for', async () => {
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

test('Realtime contract §4: an empty name of a topic is an error that says so', async () => {
  const socket = await realtime.connect()
  const { status, response } = await socket.tryJoin('realtime:', { config: {} })
  assert.equal(status, 'error')
  assert.match(response.reason, /^TopicNameRequired: ./)
  await socket.join(topicOf())
})

test('Realtime contract §10: a topic of more than 255 bytes is refused', async () => {
  const socket = await realtime.connect()
  for (const name of ['a'.repeat(300), '漢'.repeat(100)]) {
    const { status, response } = await socket.tryJoin(topicOf(name), { config: {} })
    assert.equal(status, 'error')
    assert.equal(typeof response.reason, 'string')
  }
  await socket.heartbeat()
})

test('Realtime contract §3: who leaves is answered, then told that the channel is closed', async () => {
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

test('Realtime contract §3: who has left hears nothing more', async () => {
  const [leaver, stayer] = [await realtime.connect(), await realtime.connect()]
  const topic = topicOf()
  const left = await leaver.join(topic)
  const stayed = await stayer.join(topic)
  const speaker = await (await realtime.connect()).join(topic)
  await left.leave()
  speaker.broadcast('later')
  await heard(stayed, 'later')
  const again = await leaver.join(topic)
  speaker.broadcast('last')
  assert.deepEqual(await heardBefore(again, 'last'), [])
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

test('Realtime contract §3: so is one to a topic that was left', async () => {
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
  assert.deepEqual(await heardBefore(second, 'end'), [['once', {}]])
  assert.ok(
    !socket.received.some(({ event, joinRef }) => event === 'phx_close' && joinRef === second.joinRef),
    'the second stays open',
  )
})

test('Realtime contract §2: what the server pushes has no join_ref or the one of the channel', async () => {
  const socket = await realtime.connect()
  const wishes = { postgres_changes: [{ event: '*', schema: 'public', table: 'markers' }] }
  const channel = await socket.join(topicOf(), {
    ...wishes,
    presence: { enabled: true, key: 'me' },
    broadcast: { self: true },
  })
  await channel.system('ok')
  channel.broadcast('hello')
  await heard(channel, 'hello')
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
  await heard(channel, 'after')
  await socket.heartbeat()
  assert.deepEqual(
    socket.received.filter(({ ref }) => ref !== null && refs.includes(ref)),
    [],
  )
})

test('Realtime contract §4: several channels live on one socket, each with refs of its own', async () => {
  const socket = await realtime.connect()
  const channels = await Promise.all(
    Array.from({ length: 20 }, () => socket.join(topicOf(), { broadcast: { self: true } })),
  )
  for (const [i, channel] of channels.entries()) channel.broadcast('number', { i })
  for (const [i, channel] of channels.entries()) {
    await heard(channel, 'number')
    channel.broadcast('end')
    assert.deepEqual(await heardBefore(channel, 'end'), [['number', { i }]])
  }
  await channels[0]!.leave()
  channels[1]!.broadcast('still here')
  await heard(channels[1]!, 'still here')
})

test('Realtime contract §10: channels of one connection are bounded by an error that says so', async () => {
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

test('Realtime contract §4: booleans may come as text', async () => {
  const socket = await realtime.connect()
  const channel = await socket.join(topicOf(), {
    private: 'false',
    broadcast: { self: 'true', ack: 'true' },
    presence: { enabled: 'true', key: '' },
  })
  const { status } = await socket.replyTo(channel.broadcast('mine'))
  assert.equal(status, 'ok')
  await heard(channel, 'mine')
  await channel.find('presence_state', ({ event }) => event === 'presence_state')
  const quiet = await socket.join(topicOf(), { broadcast: { self: 'false', ack: 'false' } })
  const ref = quiet.broadcast('unheard')
  await realtime.broadcast({ messages: [{ topic: quiet.topic.slice(9), event: 'end', payload: {} }] })
  assert.deepEqual(await heardBefore(quiet, 'end'), [])
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
  test(`Realtime contract §2: a malformed frame (${what}) hurts nobody else`, async () => {
    const witness = await realtime.connect()
    const socket: Socket = await realtime.connect()
    socket.sendRaw(data)
    await Promise.race([socket.heartbeat().catch(() => {}), socket.closed])
    await witness.heartbeat()
    const channel = await witness.join(topicOf(), { broadcast: { self: true } })
    channel.broadcast('alive')
    await heard(channel, 'alive')
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
test('Realtime contract §4: a join of any odd shape is answered, and hurts nobody else', async () => {
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
  await heard(channel, 'alive')
})

test('Realtime contract §3: messages of any odd shape on a channel hurt nobody else', async () => {
  const topic = topicOf()
  const [odd, listener] = [
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
  await heard(listener, 'alive')
})

test('Realtime contract §4: a JWT given with the join speaks for the channel, without one the socket’s own', async () => {
  const table = await realtime.table(
    'id int primary key, owner uuid',
    name => `create policy mine on public.${name} for select using (owner = auth.uid())`,
  )
  const socket = await realtime.connect({ as: bob })
  const wish = { event: 'INSERT', table }
  const own = await realtime.listenOn(socket, wish)
  const adas = await realtime.listenOn(socket, wish, { access_token: userJwt(realtime.project, ada) })
  const legacyName = await realtime.listenOn(socket, wish, { user_token: userJwt(realtime.project, ada) })
  const anon = await realtime.listenOn(await realtime.connect(), wish, {
    access_token: realtime.project.anon_key,
  })
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  const seen = await realtime.seen(own, adas, legacyName, anon)
  assert.deepEqual(
    seen.map(changes => changes.map(({ new: { id } }) => id)),
    [[2], [1], [1], []],
  )
})

test('Realtime contract §4: a join with a bad token is an error of its name', async () => {
  const socket = await realtime.connect()
  const expired = userJwt(realtime.project, { exp: nowSeconds() - 60 })
  const forged = userJwt({ jwt_secret: 'y'.repeat(40) })
  const bad: [string, RegExp][] = [
    [expired, /^InvalidJWTToken: ./],
    [forged, /^(JwtSignatureError|InvalidJWTToken): ./],
    ['a.b.c', /^(MalformedJWT|InvalidJWTToken|JwtSignatureError): ./],
  ]
  for (const [access_token, reason] of bad) {
    const { status, response } = await socket.tryJoin(topicOf(), { config: {}, access_token })
    assert.equal(status, 'error')
    assert.match(response.reason, reason)
  }
  await socket.join(topicOf())
})

test('Realtime contract §8: a bad token sent later is told as a system error, and the channel is closed', async () => {
  const expired = userJwt(realtime.project, { exp: nowSeconds() - 60 })
  const forged = userJwt({ jwt_secret: 'y'.repeat(40) })
  for (const access_token of [expired, forged, 'a.b.c']) {
    const socket = await realtime.connect({ as: ada })
    const [channel, other] = [
      await socket.join(topicOf()),
      await socket.join(topicOf(), { broadcast: { self: true } }),
    ]
    const ref = channel.push('access_token', { access_token })
    const told = await channel.system('error', 'system')
    assert.equal(told.payload.channel, channel.topic.slice('realtime:'.length))
    assert.equal(typeof told.payload.message, 'string')
    const closed = await channel.find('phx_close', ({ event }) => event === 'phx_close')
    assert.ok(channel.received().indexOf(told) < channel.received().indexOf(closed))
    assert.ok(!socket.received.some(message => message.ref === ref && message.event === 'phx_reply'))
    other.broadcast('still open')
    await heard(other, 'still open')
  }
})

test('Realtime contract §8: no token, the same token or the project’s key change nothing and are not answered', async () => {
  const token = userJwt(realtime.project, ada)
  const socket = await realtime.connect()
  const channel = await socket.join(topicOf(), { broadcast: { self: true } }, { access_token: token })
  const same = [null, token, realtime.project.anon_key, token]
  const refs = same.map(access_token => channel.push('access_token', { access_token }))
  channel.broadcast('still here')
  await heard(channel, 'still here')
  await socket.heartbeat()
  assert.deepEqual(broadcastsOf(channel), [['still here', {}]])
  const answers = socket.received.filter(
    ({ event, ref }) => event === 'phx_close' || refs.includes(ref ?? ''),
  )
  assert.deepEqual(answers, [])
})

test('case 10: when the token of a channel expires it is told so and closed', async () => {
  const socket = await realtime.connect()
  const access_token = userJwt(realtime.project, { ...ada, exp: nowSeconds() + 8 })
  const channel = await socket.join(topicOf(), {}, { access_token })
  const told = await channel.system('error', 'system')
  assert.equal(typeof told.payload.message, 'string')
  await channel.find('phx_close', ({ event }) => event === 'phx_close')
  await socket.heartbeat()
})

test('case 10: a token renewed in time keeps the channel open', async () => {
  const socket = await realtime.connect()
  const short = userJwt(realtime.project, { ...ada, exp: nowSeconds() + 12 })
  const renewed = await socket.join(topicOf(), { broadcast: { self: true } }, { access_token: short })
  const left = await socket.join(topicOf(), {}, { access_token: short })
  renewed.push('access_token', { access_token: userJwt(realtime.project, ada) })
  await left.find('phx_close', ({ event }) => event === 'phx_close')
  renewed.broadcast('still here')
  await heard(renewed, 'still here')
  assert.ok(!renewed.received().some(({ event }) => event === 'phx_close'))
})
