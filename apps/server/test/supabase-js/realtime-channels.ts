// The life of channels: statuses, leaving, joining again, rejections, and limits of a socket.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient, RealtimeChannel } from '@supabase/supabase-js'
import { eventually } from '../eventually.ts'
import { createFixture, type Fixture, newSubscriber, topic } from './realtime-fixture.ts'
import { tracked } from './realtime-shapes.ts'
import { Subscriber } from './realtime-subscriber.ts'

export function channelTests(fixture: () => Fixture): void {
  test('channels: a channel is joined, listed by its client, and left', async () => {
    const { anon } = fixture()
    const client = anon()
    const one = newSubscriber(client)
    assert.deepEqual([one.channel.state, client.connectionState()], ['closed', 'closed'])
    one.subscribe()
    assert.equal(one.channel.state, 'joining')
    await one.joined()
    assert.deepEqual([one.channel.state, client.connectionState()], ['joined', 'open'])
    assert.deepEqual(topicsOf(client), [one.channel.topic])
    assert.equal(await one.channel.unsubscribe(), 'ok')
    assert.deepEqual(one.statuses, ['SUBSCRIBED', 'CLOSED'])
    assert.deepEqual([one.channel.state, topicsOf(client)], ['closed', []])
  })

  test('channels: a topic maps to one channel until it is removed, and can be joined again', async () => {
    const { anon } = fixture()
    const client = anon()
    const name = topic()
    const one = await newSubscriber(client, name, { broadcast: { self: true } }).join()
    assert.equal(client.channel(name).topic, one.channel.topic)
    assert.equal(client.getChannels().length, 1)
    for (let round = 0; round < 3; round++) {
      assert.equal(await client.removeChannel(client.channel(name)), 'ok')
      assert.deepEqual(topicsOf(client), [])
      const again = await newSubscriber(client, name, { broadcast: { self: true } }).join()
      await again.channel.send({ type: 'broadcast', event: `round ${round}` })
      await again.receivesBroadcast(`round ${round}`)
    }
    assert.deepEqual([one.statuses, one.events()], [['SUBSCRIBED', 'CLOSED'], []])
  })

  test('channels: removing all channels closes the socket', async () => {
    const { anon } = fixture()
    const client = anon()
    const ears = await Promise.all([1, 2, 3].map(() => newSubscriber(client).join()))
    assert.deepEqual(await client.removeAllChannels(), ['ok', 'ok', 'ok'])
    assert.deepEqual([client.getChannels(), client.connectionState()], [[], 'closed'])
    for (const each of ears) assert.equal(each.statuses.at(-1), 'CLOSED')
    const again = await newSubscriber(client).join()
    assert.deepEqual(again.statuses, ['SUBSCRIBED'])
  })

  test('channels: leaving the last channel closes the socket', async () => {
    const { anon } = fixture()
    const client = anon({ disconnectOnEmptyChannelsAfterMs: 0 })
    const [one, two] = [await newSubscriber(client).join(), await newSubscriber(client).join()]
    await client.removeChannel(one.channel)
    assert.equal(client.isConnected(), true)
    await client.removeChannel(two.channel)
    await eventually(() => client.connectionState() === 'closed', 'the end of the socket')
  })

  test('channels: createClient exposes the same channel methods', async () => {
    const { platform, project } = fixture()
    const supabase = tracked({}, realtime =>
      createClient(`${platform.url}/v1/${project.id}`, project.anon_key, { realtime }),
    )
    const [one, two] = [new Subscriber(supabase.channel('one')), new Subscriber(supabase.channel('two'))]
    await Promise.all([one.join(), two.join()])
    assert.equal(supabase.getChannels().length, 2)
    assert.equal(await supabase.removeChannel(one.channel), 'ok')
    assert.deepEqual(await supabase.removeAllChannels(), ['ok'])
    assert.equal(supabase.realtime.isConnected(), false)
  })

  test('channels: a second channel object for a topic replaces the first', async () => {
    const { anon } = fixture()
    const client = anon()
    const name = topic()
    const one = await newSubscriber(client, name).join()
    const two = new Subscriber(new RealtimeChannel(`realtime:${name}`, { config: {} }, client))
    await two.join()
    await one.reachesStatus('CLOSED')
    const other = await newSubscriber(anon(), name).join()
    await other.channel.send({ type: 'broadcast', event: 'hello' })
    await two.receivesBroadcast('hello')
    assert.deepEqual([one.events(), two.events()], [[], ['hello']])
  })

  test('channels: copyBindings copies the handlers of another channel', async () => {
    const { service, sql, table } = fixture()
    const name = await table()
    const client = service()
    const one = newSubscriber(client, topic(), {}, { table: name })
    const copy = client.channel(topic())
    copy.copyBindings(one.channel)
    let isJoined = false
    copy.subscribe(status => (isJoined = status === 'SUBSCRIBED'))
    await eventually(() => isJoined && one.system.length > 0, 'the copy')
    await sql(`insert into ${name} (id) values (1)`)
    await one.receivesChanges(1)
    assert.deepEqual([one.ids(), one.statuses], [[1], []])
  })

  test('channels: after teardown no handler is called', async () => {
    const { anon } = fixture()
    const client = anon()
    const name = topic()
    const [one, other] = [await newSubscriber(client, name).join(), await newSubscriber(client).join()]
    one.channel.teardown()
    const sender = anon()
    await sender.channel(name).httpSend('hello', {})
    await sender.channel(other.channel.subTopic).httpSend('end', {})
    await other.receivesBroadcast('end')
    assert.deepEqual([one.events(), one.channel.state], [[], 'closed'])
  })

  test('channels: a channel can use all features at once', async () => {
    const { service, sql, table } = fixture()
    const name = await table()
    const config = { broadcast: { self: true, ack: true }, presence: { key: 'me', enabled: true } }
    const one = await newSubscriber(service(), topic(), config, { table: name }).join()
    assert.equal(await one.channel.track({ here: 1 }), 'ok')
    assert.equal(await one.channel.send({ type: 'broadcast', event: 'hello', payload: {} }), 'ok')
    await sql(`insert into ${name} (id) values (1)`)
    await Promise.all([one.receivesChanges(1), one.receivesBroadcast('hello')])
    await eventually(() => 'me' in one.channel.presenceState(), 'presence')
    assert.deepEqual(one.system, [
      {
        extension: 'postgres_changes',
        status: 'ok',
        message: 'Subscribed to PostgreSQL',
        channel: one.channel.subTopic,
      },
    ])
  })

  test('channels: handlers for rows and presence cannot be added after joining, for broadcasts they can', async () => {
    const { anon } = fixture()
    const { channel } = await newSubscriber(anon(), topic(), { broadcast: { self: true } }).join()
    assert.throws(() => channel.on('postgres_changes', { event: '*', schema: 'public' }, () => {}), /after/)
    assert.throws(() => channel.on('presence', { event: 'sync' }, () => {}), /after/)
    let received = 0
    channel.on('broadcast', { event: 'late' }, () => void received++)
    await channel.send({ type: 'broadcast', event: 'late' })
    await eventually(() => received === 1, 'the message')
  })

  test('channels: an empty topic and one that is too long are rejected', async () => {
    const { anon } = fixture()
    const client = anon({ logger: () => {} })
    assert.match(await newSubscriber(client, '').joinError(), /^TopicNameRequired: /)
    const long = newSubscriber(client, 'x'.repeat(300))
    assert.match(await long.joinError(), /^\w+: .*/)
    const fits = await newSubscriber(client, 'x'.repeat(255 - 'realtime:'.length)).join()
    assert.deepEqual(fits.statuses, ['SUBSCRIBED'])
  })

  test('channels: an invalid key, a missing one and one of another project are CHANNEL_ERROR', async () => {
    const { platform, shape, as } = fixture()
    const other = await createFixture(platform, shape)
    for (const key of ['nonsense', other.project.anon_key, 'a.b.c']) {
      assert.match(await newSubscriber(as(key)).joinError(), /transport failure|socket closed/)
    }
    const nowhere = shape.connect(
      platform.url,
      '00000000-0000-4000-8000-000000000000',
      other.project.anon_key,
    )
    assert.match(await newSubscriber(nowhere).joinError(), /transport failure|socket closed/)
  })

  test('channels: a socket has at most 100 channels, one more gets an error code', async () => {
    const { anon } = fixture()
    const client = anon()
    const ears = await Promise.all(Array.from({ length: 100 }, () => newSubscriber(client).join()))
    const onceMore = newSubscriber(client)
    assert.match(await onceMore.joinError(), /^ChannelRateLimitReached: /)
    await onceMore.channel.unsubscribe()
    await ears[0]!.channel.unsubscribe()
    const fits = await newSubscriber(client).join()
    assert.deepEqual(fits.statuses, ['SUBSCRIBED'])
  })

  test('channels: the client quota limits a project, and a disconnect frees a place', async () => {
    const { platform, shape } = fixture()
    const small = await createFixture(platform, shape, { realtime_max_clients: 2 })
    const [one] = [await newSubscriber(small.anon()).join(), await newSubscriber(small.service()).join()]
    const third = newSubscriber(small.anon({ reconnectAfterMs: () => 50 }))
    assert.match(await third.joinError(), /transport failure|socket closed/)
    await one.channel.socket.disconnect()
    await third.reachesStatus('SUBSCRIBED')
  })

  test('channels: exceeding the message quota closes the channel with an error', async () => {
    const { platform, shape } = fixture()
    const small = await createFixture(platform, shape, { realtime_max_events_per_second: 20 })
    const one = await newSubscriber(small.anon()).join()
    for (let n = 0; n < 200 && one.channel.state === 'joined'; n++)
      void one.channel.send({ type: 'broadcast', event: 'n', payload: { n } })
    await one.reachesStatus('CLOSED')
    const { status, extension } = one.system.at(-1)!
    assert.deepEqual([status, extension], ['error', 'system'])
  })
}

const topicsOf = (client: { getChannels(): { topic: string }[] }) =>
  client.getChannels().map(each => each.topic)
