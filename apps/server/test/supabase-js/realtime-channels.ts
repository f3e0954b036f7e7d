// Channels come and go: statuses, leaving, joining again, refusals, and what a socket may hold.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createClient, RealtimeChannel } from '@supabase/supabase-js'
import { Ear, until } from './realtime-ear.ts'
import { kept } from './realtime-shapes.ts'
import { ear, type Stage, setStage, topic } from './realtime-stage.ts'

export function channelTests(stage: () => Stage): void {
  test('a channel is joined, known to its client, and left', async () => {
    const { anon } = stage()
    const client = anon()
    const one = ear(client)
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

  test('the same topic is the same channel until it is removed, and joined anew after that', async () => {
    const { anon } = stage()
    const client = anon()
    const name = topic()
    const one = await ear(client, name, { broadcast: { self: true } }).join()
    assert.equal(client.channel(name).topic, one.channel.topic)
    assert.equal(client.getChannels().length, 1)
    for (let round = 0; round < 3; round++) {
      assert.equal(await client.removeChannel(client.channel(name)), 'ok')
      assert.deepEqual(topicsOf(client), [])
      const again = await ear(client, name, { broadcast: { self: true } }).join()
      await again.channel.send({ type: 'broadcast', event: `round ${round}` })
      await again.hearsOf(`round ${round}`)
    }
    assert.deepEqual([one.statuses, one.events()], [['SUBSCRIBED', 'CLOSED'], []])
  })

  test('all channels are removed at once, and the socket with them', async () => {
    const { anon } = stage()
    const client = anon()
    const ears = await Promise.all([1, 2, 3].map(() => ear(client).join()))
    assert.deepEqual(await client.removeAllChannels(), ['ok', 'ok', 'ok'])
    assert.deepEqual([client.getChannels(), client.connectionState()], [[], 'closed'])
    for (const each of ears) assert.equal(each.statuses.at(-1), 'CLOSED')
    const again = await ear(client).join()
    assert.deepEqual(again.statuses, ['SUBSCRIBED'])
  })

  test('channels of a socket are left one by one; the last takes the socket with it', async () => {
    const { anon } = stage()
    const client = anon({ disconnectOnEmptyChannelsAfterMs: 0 })
    const [one, two] = [await ear(client).join(), await ear(client).join()]
    await client.removeChannel(one.channel)
    assert.equal(client.isConnected(), true)
    await client.removeChannel(two.channel)
    await until(() => client.connectionState() === 'closed', 'the end of the socket')
  })

  test('what createClient offers for channels is the same client', async () => {
    const { platform, project } = stage()
    const supabase = kept({}, realtime =>
      createClient(`${platform.url}/v1/${project.id}`, project.anon_key, { realtime }),
    )
    const [one, two] = [new Ear(supabase.channel('one')), new Ear(supabase.channel('two'))]
    await Promise.all([one.join(), two.join()])
    assert.equal(supabase.getChannels().length, 2)
    assert.equal(await supabase.removeChannel(one.channel), 'ok')
    assert.deepEqual(await supabase.removeAllChannels(), ['ok'])
    assert.equal(supabase.realtime.isConnected(), false)
  })

  test('a second channel object for the same topic takes over from the first', async () => {
    const { anon } = stage()
    const client = anon()
    const name = topic()
    const one = await ear(client, name).join()
    const two = new Ear(new RealtimeChannel(`realtime:${name}`, { config: {} }, client))
    await two.join()
    await one.becomes('CLOSED')
    const other = await ear(anon(), name).join()
    await other.channel.send({ type: 'broadcast', event: 'hello' })
    await two.hearsOf('hello')
    assert.deepEqual([one.events(), two.events()], [[], ['hello']])
  })

  test('a channel takes over the listeners of another', async () => {
    const { service, sql, table } = stage()
    const name = await table()
    const client = service()
    const one = ear(client, topic(), {}, { table: name })
    const copy = client.channel(topic())
    copy.copyBindings(one.channel)
    let isJoined = false
    copy.subscribe(status => (isJoined = status === 'SUBSCRIBED'))
    await until(() => isJoined && one.system.length > 0, 'the copy')
    await sql(`insert into ${name} (id) values (1)`)
    await one.hears(1)
    assert.deepEqual([one.ids(), one.statuses], [[1], []])
  })

  test('after teardown nothing is called back', async () => {
    const { anon } = stage()
    const client = anon()
    const name = topic()
    const [one, other] = [await ear(client, name).join(), await ear(client).join()]
    one.channel.teardown()
    const sender = anon()
    await sender.channel(name).httpSend('hello', {})
    await sender.channel(other.channel.subTopic).httpSend('end', {})
    await other.hearsOf('end')
    assert.deepEqual([one.events(), one.channel.state], [[], 'closed'])
  })

  test('a channel that asks for everything at once gets it', async () => {
    const { service, sql, table } = stage()
    const name = await table()
    const config = { broadcast: { self: true, ack: true }, presence: { key: 'me', enabled: true } }
    const one = await ear(service(), topic(), config, { table: name }).join()
    assert.equal(await one.channel.track({ here: 1 }), 'ok')
    assert.equal(await one.channel.send({ type: 'broadcast', event: 'hello', payload: {} }), 'ok')
    await sql(`insert into ${name} (id) values (1)`)
    await Promise.all([one.hears(1), one.hearsOf('hello')])
    await until(() => 'me' in one.channel.presenceState(), 'presence')
    assert.deepEqual(one.system, [
      {
        extension: 'postgres_changes',
        status: 'ok',
        message: 'Subscribed to PostgreSQL',
        channel: one.channel.subTopic,
      },
    ])
  })

  test('listeners for rows and presence cannot be added once joined; for messages they can', async () => {
    const { anon } = stage()
    const { channel } = await ear(anon(), topic(), { broadcast: { self: true } }).join()
    assert.throws(() => channel.on('postgres_changes', { event: '*', schema: 'public' }, () => {}), /after/)
    assert.throws(() => channel.on('presence', { event: 'sync' }, () => {}), /after/)
    let heard = 0
    channel.on('broadcast', { event: 'late' }, () => void heard++)
    await channel.send({ type: 'broadcast', event: 'late' })
    await until(() => heard === 1, 'the message')
  })

  test('a channel without a name is refused, and one whose name is too long', async () => {
    const { anon } = stage()
    const client = anon({ logger: () => {} })
    assert.match(await ear(client, '').refused(), /^TopicNameRequired: /)
    const long = ear(client, 'x'.repeat(300))
    assert.match(await long.refused(), /^\w+: .*/)
    const fits = await ear(client, 'x'.repeat(255 - 'realtime:'.length)).join()
    assert.deepEqual(fits.statuses, ['SUBSCRIBED'])
  })

  test('a key that is none, of another project or of none at all is CHANNEL_ERROR', async () => {
    const { platform, shape, as } = stage()
    const other = await setStage(platform, shape)
    for (const key of ['nonsense', other.project.anon_key, 'a.b.c']) {
      assert.match(await ear(as(key)).refused(), /transport failure|socket closed/)
    }
    const nowhere = shape.connect(
      platform.url,
      '00000000-0000-4000-8000-000000000000',
      other.project.anon_key,
    )
    assert.match(await ear(nowhere).refused(), /transport failure|socket closed/)
  })

  test('a socket holds a hundred channels and refuses one more by name', async () => {
    const { anon } = stage()
    const client = anon()
    const ears = await Promise.all(Array.from({ length: 100 }, () => ear(client).join()))
    const onceMore = ear(client)
    assert.match(await onceMore.refused(), /^ChannelRateLimitReached: /)
    await onceMore.channel.unsubscribe()
    await ears[0]!.channel.unsubscribe()
    const fits = await ear(client).join()
    assert.deepEqual(fits.statuses, ['SUBSCRIBED'])
  })

  test('a project has as many clients as its quota says, and room again when one hangs up', async () => {
    const { platform, shape } = stage()
    const small = await setStage(platform, shape, { realtime_max_clients: 2 })
    const [one] = [await ear(small.anon()).join(), await ear(small.service()).join()]
    const third = ear(small.anon({ reconnectAfterMs: () => 50 }))
    assert.match(await third.refused(), /transport failure|socket closed/)
    await one.channel.socket.disconnect()
    await third.becomes('SUBSCRIBED')
  })

  test('who sends more than the quota of messages is told, and closed', async () => {
    const { platform, shape } = stage()
    const small = await setStage(platform, shape, { realtime_max_events_per_second: 20 })
    const one = await ear(small.anon()).join()
    for (let n = 0; n < 200 && one.channel.state === 'joined'; n++)
      void one.channel.send({ type: 'broadcast', event: 'n', payload: { n } })
    await one.becomes('CLOSED')
    const { status, extension } = one.system.at(-1)!
    assert.deepEqual([status, extension], ['error', 'system'])
  })
}

const topicsOf = (client: { getChannels(): { topic: string }[] }) =>
  client.getChannels().map(each => each.topic)
