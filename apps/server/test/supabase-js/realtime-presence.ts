// Presence of three clients that join, update, leave and are disconnected.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RealtimePresenceState } from '@supabase/supabase-js'
import { eventually } from '../eventually.ts'
import { type Fixture, newSubscriber, topic } from './realtime-fixture.ts'
import type { Realtime } from './realtime-shapes.ts'
import { Subscriber } from './realtime-subscriber.ts'

interface Seen {
  event: string
  key: string
  payloads: unknown[]
  current: number
}

/** A client that records presence events. */
class Watcher extends Subscriber {
  readonly seen: Seen[] = []
  syncs = 0

  constructor(client: Realtime, name: string, key?: string) {
    super(client.channel(name, { config: key === undefined ? {} : { presence: { key } } }))
    const note = (event: string, key: string, metas: object[], current: object[]) =>
      this.seen.push({ event, key, payloads: metas.map(withoutRef), current: current.length })
    this.channel
      .on('presence', { event: 'sync' }, () => void this.syncs++)
      .on(
        'presence',
        { event: 'join' },
        ({ event, key, newPresences, currentPresences }) =>
          void note(event, key, newPresences, currentPresences),
      )
      .on(
        'presence',
        { event: 'leave' },
        ({ event, key, leftPresences, currentPresences }) =>
          void note(event, key, leftPresences, currentPresences),
      )
  }

  state = () => payloadsOf(this.channel.presenceState())
  async sees(state: Record<string, unknown[]>): Promise<void> {
    const wanted = JSON.stringify(sorted(state))
    await eventually(
      () => JSON.stringify(sorted(this.state())) === wanted,
      `${wanted}, not ${JSON.stringify(this.state())}`,
    )
  }
}

const withoutRef = ({ presence_ref, ...rest }: { presence_ref?: string }) => {
  assert.ok(typeof presence_ref === 'string' && presence_ref.length > 0, 'a reference')
  assert.ok(!('phx_ref' in rest) && !('phx_ref_prev' in rest))
  return rest
}
const payloadsOf = (state: RealtimePresenceState) =>
  Object.fromEntries(Object.entries(state).map(([key, metas]) => [key, metas.map(withoutRef)]))
const sorted = (state: object) => Object.entries(state).sort(([a], [b]) => (a < b ? -1 : 1))

export function presenceTests(fixture: () => Fixture): void {
  const three = async (...keys: string[]) => {
    const { anon } = fixture()
    const name = topic()
    const watchers = keys.map(key => new Watcher(anon(), name, key))
    await Promise.all(watchers.map(each => each.join()))
    return { name, watchers: watchers as [Watcher, Watcher, Watcher] }
  }

  test('presence: a joining client gets the empty state at once', async () => {
    const { watchers } = await three('ada')
    await eventually(() => watchers[0].syncs === 1, 'the first sync')
    assert.deepEqual([watchers[0].state(), watchers[0].seen], [{}, []])
  })

  test('presence: three clients see each other join and leave', async () => {
    const { watchers } = await three('ada', 'bob', 'eve')
    const [ada, bob, eve] = watchers
    assert.equal(await ada.channel.track({ mood: 'good' }), 'ok')
    assert.equal(await bob.channel.track({ mood: 'bad', at: [1, { x: 2 }] }), 'ok')
    assert.equal(await eve.channel.track({}), 'ok')
    const all = { ada: [{ mood: 'good' }], bob: [{ mood: 'bad', at: [1, { x: 2 }] }], eve: [{}] }
    for (const each of watchers) await each.sees(all)
    assert.equal(await bob.channel.untrack(), 'ok')
    for (const each of watchers) await each.sees({ ada: all.ada, eve: all.eve })
    assert.equal(await eve.channel.unsubscribe(), 'ok')
    for (const each of [ada, bob]) await each.sees({ ada: all.ada })
    assert.equal(await bob.channel.track({ mood: 'better' }), 'ok')
    for (const each of [ada, bob]) {
      await each.sees({ ada: all.ada, bob: [{ mood: 'better' }] })
      assert.deepEqual(
        each.seen.map(({ event, key, payloads }) => [event, key, payloads]),
        [
          ['join', 'ada', all.ada],
          ['join', 'bob', all.bob],
          ['join', 'eve', all.eve],
          ['leave', 'bob', all.bob],
          ['leave', 'eve', all.eve],
          ['join', 'bob', [{ mood: 'better' }]],
        ],
      )
      assert.ok(each.syncs >= 6, `${each.syncs} syncs`)
    }
  })

  test('presence: a later client gets the current state', async () => {
    const { anon } = fixture()
    const { name, watchers } = await three('ada', 'bob')
    await watchers[0].channel.track({ n: 1 })
    await watchers[1].channel.track({ n: 2 })
    const late = new Watcher(anon(), name, 'late')
    await late.join()
    await late.sees({ ada: [{ n: 1 }], bob: [{ n: 2 }] })
    assert.equal(late.syncs, 1)
    const refs = (each: Watcher) => each.channel.presenceState()['ada']![0]!.presence_ref
    assert.equal(refs(late), refs(watchers[1]))
  })

  test('presence: several clients may share a key', async () => {
    const { watchers } = await three('ada', 'ada', 'bob')
    const [laptop, phone, bob] = watchers
    await laptop.channel.track({ on: 'laptop' })
    await phone.channel.track({ on: 'phone' })
    await bob.sees({ ada: [{ on: 'laptop' }, { on: 'phone' }] })
    await laptop.channel.untrack()
    await bob.sees({ ada: [{ on: 'phone' }] })
    assert.deepEqual(
      bob.seen.map(({ event, payloads, current }) => [event, payloads, current]),
      [
        ['join', [{ on: 'laptop' }], 0],
        ['join', [{ on: 'phone' }], 1],
        ['leave', [{ on: 'laptop' }], 1],
      ],
    )
  })

  test('presence: tracking again replaces the entry, and tracking the same payload changes nothing', async () => {
    const { watchers } = await three('ada', 'bob')
    const [ada, bob] = watchers
    await ada.channel.track({ at: 'home' })
    await ada.channel.track({ at: 'work' })
    await bob.sees({ ada: [{ at: 'work' }] })
    const before = bob.channel.presenceState()['ada']![0]!.presence_ref
    assert.equal(await ada.channel.track({ at: 'work' }), 'ok')
    await bob.channel.track({})
    await ada.sees({ ada: [{ at: 'work' }], bob: [{}] })
    await bob.sees({ ada: [{ at: 'work' }], bob: [{}] })
    assert.equal(bob.channel.presenceState()['ada']![0]!.presence_ref, before)
    assert.deepEqual(
      bob.seen.map(({ event, key, payloads }) => [event, key, payloads]),
      [
        ['join', 'ada', [{ at: 'home' }]],
        ['join', 'ada', [{ at: 'work' }]],
        ['leave', 'ada', [{ at: 'home' }]],
        ['join', 'bob', [{}]],
      ],
    )
  })

  test('presence: disconnecting leaves all topics', async () => {
    const { anon } = fixture()
    const name = topic()
    const client = anon()
    const watcher = new Watcher(anon(), name, 'eve')
    const [one, two] = [new Watcher(client, name, 'ada'), new Watcher(client, `${name} 2`, 'ada')]
    const other = new Watcher(anon(), `${name} 2`, 'eve')
    await Promise.all([watcher, other, one, two].map(each => each.join()))
    await one.channel.track({ n: 1 })
    await two.channel.track({ n: 2 })
    await watcher.sees({ ada: [{ n: 1 }] })
    await other.sees({ ada: [{ n: 2 }] })
    await client.disconnect()
    await Promise.all([watcher.sees({}), other.sees({})])
  })

  test('presence: without a key the server generates one per client', async () => {
    const { anon } = fixture()
    const name = topic()
    const watchers = [new Watcher(anon(), name), new Watcher(anon(), name)]
    await Promise.all(watchers.map(each => each.join()))
    for (const [n, each] of watchers.entries()) await each.channel.track({ n })
    await eventually(() => Object.keys(watchers[0]!.state()).length === 2, 'two keys')
    for (const key of Object.keys(watchers[0]!.state())) assert.match(key, /^[0-9a-f-]{36}$/)
  })

  test('presence: a client without presence handlers is visible to others', async () => {
    const { anon } = fixture()
    const name = topic()
    const watcher = new Watcher(anon(), name, 'eve')
    const plain = newSubscriber(anon(), name, { presence: { key: 'plain' } })
    await Promise.all([watcher.join(), plain.join()])
    assert.equal(await plain.channel.track({ here: true }), 'ok')
    await watcher.sees({ plain: [{ here: true }] })
    // With presence enabled but no handler, the client still keeps the state.
    const asking = newSubscriber(anon(), name, { presence: { key: 'asking', enabled: true } })
    await asking.join()
    await eventually(() => 'plain' in asking.channel.presenceState(), 'the state')
  })

  test('presence: keys may be any text', async () => {
    const { watchers } = await three('größe 🎈', 'constructor', '"quoted"')
    for (const [n, each] of watchers.entries()) await each.channel.track({ n })
    for (const each of watchers)
      await each.sees({ 'größe 🎈': [{ n: 0 }], constructor: [{ n: 1 }], '"quoted"': [{ n: 2 }] })
  })

  test('presence: only objects can be tracked, and only after joining', async () => {
    const { anon } = fixture()
    const { watchers } = await three('ada')
    const { channel } = watchers[0]
    for (const payload of ['text', 5, [1], true])
      assert.equal(await channel.send({ type: 'presence', event: 'track', payload }), 'error')
    assert.equal(await channel.send({ type: 'presence', event: 'track', payload: { n: 1 } }), 'ok')
    await watchers[0].sees({ ada: [{ n: 1 }] })
    await assert.rejects(anon().channel('early').track({}), /before joining/)
  })

  test('presence: presence, broadcasts and other topics do not affect each other', async () => {
    const { anon } = fixture()
    const { name, watchers } = await three('ada', 'bob')
    const elsewhere = new Watcher(anon(), `${name} 2`, 'eve')
    await elsewhere.join()
    await watchers[0].channel.track({ n: 1 })
    await watchers[0].channel.send({ type: 'broadcast', event: 'hello', payload: {} })
    await watchers[1].receivesBroadcast('hello')
    await watchers[1].sees({ ada: [{ n: 1 }] })
    await elsewhere.channel.track({ n: 2 })
    await elsewhere.sees({ eve: [{ n: 2 }] })
  })
}
