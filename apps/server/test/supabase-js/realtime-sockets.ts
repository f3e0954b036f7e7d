// The socket below the channels: its states, its heartbeat, its options, and what goes over it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WebSocketFactory } from '@supabase/supabase-js'
import { until } from './realtime-ear.ts'
import { offered, walked } from './realtime-recorder.ts'
import { newest } from './realtime-shapes.ts'
import { ear, type Stage, topic } from './realtime-stage.ts'

export function socketTests(stage: () => Stage): void {
  test('the client connects and disconnects when told to, and says in which state it is', async () => {
    const { anon } = stage()
    const client = anon()
    client.connect()
    assert.deepEqual([client.isConnecting(), client.isConnected()], [true, false])
    await until(() => client.isConnected(), 'a connection')
    assert.deepEqual([client.connectionState(), client.isConnecting()], ['open', false])
    const gone = client.disconnect(1000, 'enough')
    assert.equal(client.isDisconnecting(), true)
    assert.equal(await gone, 'ok')
    assert.equal(client.connectionState(), 'closed')
  })

  test('a socket that was closed by its client comes back with its channels when it connects again', async () => {
    const { anon } = stage()
    const client = anon()
    const name = topic()
    const one = await ear(client, name).join()
    await client.disconnect()
    await until(() => one.statuses.includes('CHANNEL_ERROR'), 'the end of the channel')
    client.connect()
    await one.joined(2)
    await anon().channel(name).httpSend('again', {})
    await one.hearsOf('again')
  })

  test('heartbeats are answered', async () => {
    const { anon } = stage()
    const beats: [status: string, latency: number | undefined][] = []
    const client = anon({
      heartbeatIntervalMs: 250,
      heartbeatCallback: (status, latency) => void beats.push([status, latency]),
    })
    await ear(client).join()
    const oks = () => beats.filter(([status]) => status === 'ok')
    await until(() => oks().length >= 2, 'two heartbeats')
    for (const [, latency] of oks()) assert.equal(typeof latency, 'number')
    assert.equal(beats[0]![0], 'sent')

    const calm = anon()
    const heard: string[] = []
    calm.onHeartbeat(status => void heard.push(status))
    await ear(calm).join()
    await calm.sendHeartbeat()
    await until(() => heard.includes('ok'), 'an answer')
    assert.deepEqual(heard, ['sent', 'ok'])
  })

  test('the options of the client travel in the URL, and more than the server knows does no harm', async () => {
    const { project, shape, anon } = stage()
    const client = anon({ params: { apikey: project.anon_key, colour: 'grün & blau' }, logLevel: 'info' })
    const url = new URL(client.endpointURL())
    assert.deepEqual(Object.fromEntries(url.searchParams), {
      apikey: project.anon_key,
      vsn: shape.vsn,
      log_level: 'info',
      colour: 'grün & blau',
    })
    const one = await ear(client, topic(), { broadcast: { self: true } }).join()
    await one.channel.send({ type: 'broadcast', event: 'hello' })
    await one.hearsOf('hello')
  })

  test('what is pushed to a topic nobody joined is refused in words', async () => {
    const { anon } = stage()
    const received: [message: string, payload: any][] = []
    const logger = (kind: string, message: string, payload: unknown) => {
      if (kind === 'receive') received.push([message, payload])
    }
    const client = anon({ logger })
    assert.equal(client.hasLogger(), true)
    client.log('test', 'a line of our own')
    await ear(client).join()
    const common = { topic: 'realtime:never joined', payload: {}, join_ref: '99' }
    client.push({ ...common, event: 'broadcast', ref: '100' })
    client.push({ ...common, event: 'phx_leave', ref: '101' })
    client.push({ topic: 'phoenix', event: 'heartbeat', payload: {}, ref: '102' })
    await until(() => received.some(([message]) => message.includes('(102)')), 'the last answer')
    const [, answer] = received.find(([message]) => message.includes('(100)')) ?? []
    assert.deepEqual(answer, { status: 'error', response: { reason: 'unmatched topic' } })
  })

  test('a topic that is joined once more ends what was joined before', async () => {
    const { anon } = stage()
    const client = anon()
    const one = await ear(client).join()
    client.push({
      topic: one.channel.topic,
      event: 'phx_join',
      payload: { config: {} },
      ref: '900',
      join_ref: '900',
    })
    await one.becomes('CLOSED')
  })

  test('every method the client has is walked by a file of this suite', () => {
    const methods = offered(newest.connect('http://127.0.0.1:1', 'any', 'key'))
    assert.ok(methods.length > 35, `${methods.length} methods`)
    const known: readonly string[] = Object.values(walked).flat()
    assert.deepEqual(
      methods.filter(method => !known.includes(method)),
      [],
      'a new method needs a test',
    )
    assert.deepEqual(
      known.filter(method => !methods.includes(method)),
      [],
      'a method that is gone needs none',
    )
    assert.ok(WebSocketFactory.isWebSocketSupported())
  })
}
