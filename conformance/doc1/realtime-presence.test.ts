// 1 §4.7 and Realtime contract §7: presence.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { uuid } from '../people.ts'
import type { Channel } from '../phoenix.ts'
import type { Message } from '../phoenix-frames.ts'
import { type RealtimeApi, realtimeProject, receivesBroadcast, topicOf } from '../realtime.ts'
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

const join = async (topic: string, key = '', options = {}): Promise<Channel> =>
  (await realtime.connect(options)).join(topic, { presence: { key, enabled: true } })
const track = (channel: Channel, payload: unknown) =>
  channel.ask('presence', { type: 'presence', event: 'track', payload })
const untrack = (channel: Channel) => channel.ask('presence', { type: 'presence', event: 'untrack' })
const stateOf = async (channel: Channel): Promise<any> =>
  (await channel.find('presence_state', ({ event }) => event === 'presence_state')).payload
const diffsOf = (channel: Channel): any[] =>
  channel
    .received()
    .filter(({ event }) => event === 'presence_diff')
    .map(({ payload }) => payload)
const diff = (channel: Channel, what: string, isIt: (diff: any) => boolean): Promise<Message> =>
  channel.find(what, ({ event, payload }) => event === 'presence_diff' && isIt(payload))
const joins = (key: string) => (payload: any) => key in payload.joins
const leaves = (key: string) => (payload: any) => key in payload.leaves
/** Without the references, which are opaque. */
const tracked = (metas: any[]) => metas.map(({ phx_ref: _, phx_ref_prev: __, ...fields }) => fields)

test('Realtime contract §7: the state follows the reply to the join, empty if nobody is present', async () => {
  for (const version of ['1.0.0', '2.0.0'] as const) {
    const channel = await join(topicOf(), 'me', { version })
    assert.deepEqual(await stateOf(channel), {})
    const events = channel.received().map(({ event }) => event)
    assert.ok(events.indexOf('phx_reply') < events.indexOf('presence_state'), `${events}`)
  }
})

test('Realtime contract §7: track gets a reply, and a diff goes to all members including the sender', async () => {
  const topic = topicOf()
  const [me, other, old] = [
    await join(topic, 'me'),
    await join(topic, 'other', { as: ada }),
    await join(topic, 'old', { version: '1.0.0' }),
  ]
  const { status, response } = await track(me, { name: 'Ada', at: [1, 2] })
  assert.deepEqual([status, response], ['ok', {}])
  for (const channel of [me, other, old]) {
    const { payload } = await diff(channel, 'joins of me', joins('me'))
    assert.deepEqual(Object.keys(payload).sort(), ['joins', 'leaves'])
    assert.deepEqual(payload.leaves, {})
    assert.deepEqual(Object.keys(payload.joins), ['me'])
    const { metas } = payload.joins.me
    assert.deepEqual(tracked(metas), [{ name: 'Ada', at: [1, 2] }])
    assert.equal(typeof metas[0].phx_ref, 'string')
    assert.notEqual(metas[0].phx_ref, '')
  }
})

test('Realtime contract §7: a later member gets the state with the same references', async () => {
  const topic = topicOf()
  const [one, two] = [await join(topic, 'one'), await join(topic, 'two')]
  await track(one, { n: 1 })
  await track(two, { n: 2 })
  const summary = (await diff(one, 'joins of two', joins('two'))).payload.joins.two.metas[0]
  const state = await stateOf(await join(topic, 'three'))
  assert.deepEqual(Object.keys(state).sort(), ['one', 'two'])
  assert.deepEqual(tracked(state.one.metas), [{ n: 1 }])
  assert.deepEqual(state.two.metas, [summary])
  assert.notEqual(state.one.metas[0].phx_ref, state.two.metas[0].phx_ref)
})

test('Realtime contract §7: untrack, leaving and disconnecting are sent as leaves', async () => {
  const topic = topicOf()
  const watcher = await join(topic, 'watcher')
  const ways: [string, (channel: Channel) => Promise<unknown>][] = [
    ['untracks', untrack],
    ['leaves', channel => channel.leave()],
    ['hangs up', channel => channel.socket.close()],
  ]
  for (const [key, goes] of ways) {
    const channel = await join(topic, key)
    await track(channel, { key })
    const came = (await diff(watcher, `joins of ${key}`, joins(key))).payload.joins[key]
    await goes(channel)
    const { payload } = await diff(watcher, `who ${key}`, leaves(key))
    assert.deepEqual(payload, { joins: {}, leaves: { [key]: came } })
  }
  assert.deepEqual(await stateOf(await join(topic)), {})
})

test('Realtime contract §7: untrack gets a reply, also if nothing was tracked', async () => {
  const channel = await join(topicOf(), 'me')
  const { status, response } = await untrack(channel)
  assert.deepEqual([status, response], ['ok', {}])
})

test('Realtime contract §7: one key from several channels has several metas, and loses them one by one', async () => {
  const topic = topicOf()
  const [phone, desk, watcher] = [
    await join(topic, 'me'),
    await join(topic, 'me'),
    await join(topic, 'watcher'),
  ]
  await track(phone, { on: 'phone' })
  await track(desk, { on: 'desk' })
  await diff(watcher, 'the desk', payload => payload.joins.me?.metas.some(({ on }: any) => on === 'desk'))
  const state = await stateOf(await join(topic))
  assert.deepEqual(
    tracked(state.me.metas)
      .map(({ on }) => on)
      .sort(),
    ['desk', 'phone'],
  )
  await phone.leave()
  const { payload } = await diff(watcher, 'the phone leaves', leaves('me'))
  assert.deepEqual(tracked(payload.leaves.me.metas), [{ on: 'phone' }])
  const after = await stateOf(await join(topic))
  assert.deepEqual(tracked(after.me.metas), [{ on: 'desk' }])
})

test('Realtime contract §7: tracking again replaces the entry, with a reference to the old one', async () => {
  const topic = topicOf()
  const [me, watcher] = [await join(topic, 'me'), await join(topic, 'watcher')]
  await track(me, { mood: 'fine' })
  const first = (await diff(watcher, 'the first', joins('me'))).payload.joins.me.metas[0]
  await track(me, { mood: 'tired' })
  const { payload } = await diff(watcher, 'the second', leaves('me'))
  const [now] = payload.joins.me.metas
  assert.deepEqual([now.mood, now.phx_ref_prev], ['tired', first.phx_ref])
  assert.notEqual(now.phx_ref, first.phx_ref)
  assert.deepEqual(
    payload.leaves.me.metas.map(({ phx_ref, mood }: any) => [phx_ref, mood]),
    [[first.phx_ref, 'fine']],
  )
  const state = await stateOf(await join(topic))
  assert.deepEqual(tracked(state.me.metas), [{ mood: 'tired' }])
})

test('Realtime contract §7: tracking the same payload again sends nothing', async () => {
  const topic = topicOf()
  const [me, watcher] = [await join(topic, 'me'), await join(topic, 'watcher')]
  await track(me, { mood: 'fine', n: { a: 1 } })
  const { status } = await track(me, { mood: 'fine', n: { a: 1 } })
  assert.equal(status, 'ok')
  await untrack(me)
  await diff(watcher, 'the end', leaves('me'))
  assert.deepEqual(
    diffsOf(watcher).map(({ joins, leaves }) => [Object.keys(joins), Object.keys(leaves)]),
    [
      [['me'], []],
      [[], ['me']],
    ],
  )
})

test('Realtime contract §4: without a key each channel gets its own UUID', async () => {
  const topic = topicOf()
  const channels = [await join(topic), await join(topic, ''), await join(topic)]
  for (const [i, channel] of channels.entries()) await track(channel, { i })
  await diff(channels[0]!, 'all three', payload => Object.values<any>(payload.joins)[0]?.metas[0].i === 2)
  const keys = Object.keys(await stateOf(await join(topic)))
  assert.equal(new Set(keys).size, 3)
  for (const key of keys) assert.match(key, uuid)
})

test('Realtime contract §7: what is tracked must be an object', async () => {
  const channel = await join(topicOf(), 'me')
  for (const payload of ['x', 1, [1]]) {
    const { status } = await track(channel, payload)
    assert.equal(status, 'error', JSON.stringify(payload))
  }
  assert.equal((await track(channel, {})).status, 'ok')
  const { payload } = await diff(channel, 'joins of me', joins('me'))
  assert.deepEqual(tracked(payload.joins.me.metas), [{}])
})

test('Realtime contract §4: the first track enables presence if the join did not', async () => {
  const topic = topicOf()
  const watcher = await join(topic, 'watcher')
  const channel = await (await realtime.connect()).join(topic, { presence: { key: 'late', enabled: false } })
  assert.equal((await track(channel, { n: 1 })).status, 'ok')
  const { payload } = await diff(watcher, 'joins of late', joins('late'))
  assert.deepEqual(tracked(payload.joins.late.metas), [{ n: 1 }])
})

test('Realtime contract §7: without presence no state is sent', async () => {
  const socket = await realtime.connect()
  const channel = await socket.join(topicOf(), {
    presence: { key: '', enabled: false },
    broadcast: { self: true },
  })
  channel.broadcast('end')
  await receivesBroadcast(channel, 'end')
  await socket.heartbeat()
  assert.ok(!channel.received().some(({ event }) => event === 'presence_state'))
})

test('Realtime contract §7: keys and fields may have any name', async () => {
  const topic = topicOf()
  const watcher = await join(topic)
  for (const key of ['__proto__', 'constructor', '漢字 🙂', 'a.b/c']) {
    const channel = await join(topic, key)
    await track(channel, JSON.parse(`{"constructor":1,"ä":{"x":null},"key":${JSON.stringify(key)}}`))
    const { payload } = await watcher.find(
      `joins of ${key}`,
      ({ event, payload }) => event === 'presence_diff' && Object.hasOwn(payload.joins, key),
    )
    const meta = Object.entries<any>(payload.joins).find(([name]) => name === key)![1].metas[0]
    assert.deepEqual([meta.constructor, meta.ä, meta.key], [1, { x: null }, key])
  }
})

test('Realtime contract §6–§7: topics of another name, project or kind have separate presence', async () => {
  const topic = topicOf()
  const me = await join(topic, 'me')
  await track(me, { n: 1 })
  await diff(me, 'joins of me', joins('me'))
  assert.deepEqual(await stateOf(await join(`${topic}x`)), {})
  const service = await realtime.connect({ as: 'service_role' })
  const secret = await service.join(topic, { private: true, presence: { enabled: true } })
  assert.deepEqual(await stateOf(secret), {})
  const other = await realtimeProject(it)
  try {
    const there = await (await other.connect()).join(topic, { presence: { enabled: true } })
    assert.deepEqual(await stateOf(there), {})
  } finally {
    await other.closeAll()
  }
})

test('Realtime contract §7: presence and broadcast work on one channel', async () => {
  const topic = topicOf()
  const [me, other] = [await join(topic, 'me'), await join(topic, 'other')]
  await track(me, { n: 1 })
  me.broadcast('hello', { n: 2 })
  await diff(other, 'joins of me', joins('me'))
  assert.deepEqual((await receivesBroadcast(other, 'hello')).payload.payload, { n: 2 })
})
