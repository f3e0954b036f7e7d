// Who is there: three clients that come, change, go, and are cut off.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RealtimePresenceState } from '@supabase/supabase-js'
import { Ear, until } from './realtime-ear.ts'
import type { Realtime } from './realtime-shapes.ts'
import { ear, type Stage, topic } from './realtime-stage.ts'

interface Seen {
  event: string
  key: string
  payloads: unknown[]
  current: number
}

/** A client that watches who comes and goes. */
class Watcher extends Ear {
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
  sees(state: Record<string, unknown[]>): Promise<void> {
    const wanted = JSON.stringify(sorted(state))
    return until(
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

export function presenceTests(stage: () => Stage): void {
  const three = async (...keys: string[]) => {
    const { anon } = stage()
    const name = topic()
    const watchers = keys.map(key => new Watcher(anon(), name, key))
    await Promise.all(watchers.map(each => each.join()))
    return { name, watchers: watchers as [Watcher, Watcher, Watcher] }
  }

  test('who joins is told at once that nobody is there', async () => {
    const { watchers } = await three('ada')
    await until(() => watchers[0].syncs === 1, 'the first sync')
    assert.deepEqual([watchers[0].state(), watchers[0].seen], [{}, []])
  })

  test('three clients see each other come and go', async () => {
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

  test('who comes later is told who is there already', async () => {
    const { anon } = stage()
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

  test('under one key several may be there', async () => {
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

  test('tracking again replaces what was there; the same once more changes nothing', async () => {
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

  test('who hangs up is gone, whatever they had joined', async () => {
    const { anon } = stage()
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

  test('without a key the server makes one for each', async () => {
    const { anon } = stage()
    const name = topic()
    const watchers = [new Watcher(anon(), name), new Watcher(anon(), name)]
    await Promise.all(watchers.map(each => each.join()))
    for (const [n, each] of watchers.entries()) await each.channel.track({ n })
    await until(() => Object.keys(watchers[0]!.state()).length === 2, 'two keys')
    for (const key of Object.keys(watchers[0]!.state())) assert.match(key, /^[0-9a-f-]{36}$/)
  })

  test('who listens to no presence is seen all the same', async () => {
    const { anon } = stage()
    const name = topic()
    const watcher = new Watcher(anon(), name, 'eve')
    const plain = ear(anon(), name, { presence: { key: 'plain' } })
    await Promise.all([watcher.join(), plain.join()])
    assert.equal(await plain.channel.track({ here: true }), 'ok')
    await watcher.sees({ plain: [{ here: true }] })
    // Asked for without a listener, the state is kept.
    const asking = ear(anon(), name, { presence: { key: 'asking', enabled: true } })
    await asking.join()
    await until(() => 'plain' in asking.channel.presenceState(), 'the state')
  })

  test('keys are any text', async () => {
    const { watchers } = await three('größe 🎈', 'constructor', '"quoted"')
    for (const [n, each] of watchers.entries()) await each.channel.track({ n })
    for (const each of watchers)
      await each.sees({ 'größe 🎈': [{ n: 0 }], constructor: [{ n: 1 }], '"quoted"': [{ n: 2 }] })
  })

  test('what is no object is not tracked, and before joining nothing is', async () => {
    const { anon } = stage()
    const { watchers } = await three('ada')
    const { channel } = watchers[0]
    for (const payload of ['text', 5, [1], true])
      assert.equal(await channel.send({ type: 'presence', event: 'track', payload }), 'error')
    assert.equal(await channel.send({ type: 'presence', event: 'track', payload: { n: 1 } }), 'ok')
    await watchers[0].sees({ ada: [{ n: 1 }] })
    await assert.rejects(anon().channel('early').track({}), /before joining/)
  })

  test('presence and messages and another topic do not disturb each other', async () => {
    const { anon } = stage()
    const { name, watchers } = await three('ada', 'bob')
    const elsewhere = new Watcher(anon(), `${name} 2`, 'eve')
    await elsewhere.join()
    await watchers[0].channel.track({ n: 1 })
    await watchers[0].channel.send({ type: 'broadcast', event: 'hello', payload: {} })
    await watchers[1].hearsOf('hello')
    await watchers[1].sees({ ada: [{ n: 1 }] })
    await elsewhere.channel.track({ n: 2 })
    await elsewhere.sees({ eve: [{ n: 2 }] })
  })
}
