// The socket below the channels: states, heartbeat, options and frames.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WebSocketFactory } from '@supabase/supabase-js'
import { eventually } from '../eventually.ts'
import { type Fixture, newSubscriber, topic } from './realtime-fixture.ts'
import { publicMethods, requiredMethods } from './realtime-recorder.ts'
import { newest } from './realtime-shapes.ts'

export function socketTests(fixture: () => Fixture): void {
  test('sockets: connect and disconnect work, and the state is reported', async () => {
    const { anon } = fixture()
    const client = anon()
    client.connect()
    assert.deepEqual([client.isConnecting(), client.isConnected()], [true, false])
    await eventually(() => client.isConnected(), 'a connection')
    assert.deepEqual([client.connectionState(), client.isConnecting()], ['open', false])
    const gone = client.disconnect(1000, 'enough')
    assert.equal(client.isDisconnecting(), true)
    assert.equal(await gone, 'ok')
    assert.equal(client.connectionState(), 'closed')
  })

  test('sockets: after disconnect and connect the channels are joined again', async () => {
    const { anon } = fixture()
    const client = anon()
    const name = topic()
    const one = await newSubscriber(client, name).join()
    await client.disconnect()
    await eventually(() => one.statuses.includes('CHANNEL_ERROR'), 'the end of the channel')
    client.connect()
    await one.joined(2)
    await anon().channel(name).httpSend('again', {})
    await one.receivesBroadcast('again')
  })

  test('sockets: heartbeats are answered', async () => {
    const { anon } = fixture()
    const beats: [status: string, latency: number | undefined][] = []
    const client = anon({
      heartbeatIntervalMs: 250,
      heartbeatCallback: (status, latency) => void beats.push([status, latency]),
    })
    await newSubscriber(client).join()
    const oks = () => beats.filter(([status]) => status === 'ok')
    await eventually(() => oks().length >= 2, 'two heartbeats')
    for (const [, latency] of oks()) assert.equal(typeof latency, 'number')
    assert.equal(beats[0]![0], 'sent')

    const calm = anon()
    const received: string[] = []
    calm.onHeartbeat(status => void received.push(status))
    await newSubscriber(calm).join()
    await calm.sendHeartbeat()
    await eventually(() => received.includes('ok'), 'an answer')
    assert.deepEqual(received, ['sent', 'ok'])
  })

  test('sockets: client options are sent in the URL, and unknown ones are ignored', async () => {
    const { project, shape, anon } = fixture()
    const client = anon({ params: { apikey: project.anon_key, colour: 'grün & blau' }, logLevel: 'info' })
    const url = new URL(client.endpointURL())
    assert.deepEqual(Object.fromEntries(url.searchParams), {
      apikey: project.anon_key,
      vsn: shape.vsn,
      log_level: 'info',
      colour: 'grün & blau',
    })
    const one = await newSubscriber(client, topic(), { broadcast: { self: true } }).join()
    await one.channel.send({ type: 'broadcast', event: 'hello' })
    await one.receivesBroadcast('hello')
  })

  test('sockets: a push to a topic that is not joined is rejected with a reason', async () => {
    const { anon } = fixture()
    const received: [message: string, payload: any][] = []
    const logger = (kind: string, message: string, payload: unknown) => {
      if (kind === 'receive') received.push([message, payload])
    }
    const client = anon({ logger })
    assert.equal(client.hasLogger(), true)
    client.log('test', 'a line of our own')
    await newSubscriber(client).join()
    const common = { topic: 'realtime:never joined', payload: {}, join_ref: '99' }
    client.push({ ...common, event: 'broadcast', ref: '100' })
    client.push({ ...common, event: 'phx_leave', ref: '101' })
    client.push({ topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '102' })
    await eventually(() => received.some(([message]) => message.includes('(102)')), 'the last answer')
    const [, answer] = received.find(([message]) => message.includes('(100)')) ?? []
    assert.deepEqual(answer, { status: 'error', response: { reason: 'unmatched topic' } })
  })

  test('sockets: joining a topic again closes the earlier channel', async () => {
    const { anon } = fixture()
    const client = anon()
    const one = await newSubscriber(client).join()
    client.push({
      topic: one.channel.topic,
      event: 'phx_join',
      payload: { config: {} },
      ref: '900',
      join_ref: '900',
    })
    await one.reachesStatus('CLOSED')
  })

  test('sockets: every public method of the client is called by a file of this suite', () => {
    const methods = publicMethods(newest.connect('http://127.0.0.1:1', 'any', 'key'))
    assert.ok(methods.length > 35, `${methods.length} methods`)
    const known: readonly string[] = Object.values(requiredMethods).flat()
    assert.deepEqual(
      methods.filter(method => !known.includes(method)),
      [],
      'a new method needs a test',
    )
    assert.deepEqual(
      known.filter(method => !methods.includes(method)),
      [],
      'a removed method needs no test',
    )
    assert.ok(WebSocketFactory.isWebSocketSupported())
  })
}
