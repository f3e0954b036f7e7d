// Messages between clients: to others, to the sender, acknowledged, binary, and without joining.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFixture, type Fixture, newSubscriber, topic } from './realtime-fixture.ts'
import { oldest } from './realtime-shapes.ts'

const message = (event: string, payload?: unknown) => ({ type: 'broadcast' as const, event, payload })
/** The client logs a warning when it falls back to HTTP. */
const quiet = { logger: () => {} }

export function broadcastTests(fixture: () => Fixture): void {
  test('broadcast: a message reaches all other members unchanged', async () => {
    const { anon, service } = fixture()
    const name = topic()
    const [from, ...others] = await Promise.all(
      [anon(), anon(), service()].map(client => newSubscriber(client, name).join()),
    )
    const payload = { text: 'grüße 🎈', list: [1, null, { deep: true }], empty: {}, number: 1.5 }
    assert.equal(await from!.channel.send(message('greeting', payload)), 'ok')
    for (const other of others) {
      const { type, event, payload: got } = await other.receivesBroadcast('greeting')
      assert.deepEqual([type, event, got], ['broadcast', 'greeting', payload])
    }
    await others[0]!.channel.send(message('answer', {}))
    await from!.receivesBroadcast('answer')
    // Its own message did not arrive before the reply.
    assert.deepEqual(from!.events(), ['answer'])
  })

  test('broadcast: with self the sender receives its own message once', async () => {
    const { anon } = fixture()
    const one = await newSubscriber(anon(), topic(), { broadcast: { self: true } }).join()
    await one.channel.send(message('first', { n: 1 }))
    await one.channel.send(message('second', { n: 2 }))
    await one.receivesBroadcast('second')
    assert.deepEqual(
      one.broadcasts.map(each => [each.event, each.payload]),
      [
        ['first', { n: 1 }],
        ['second', { n: 2 }],
      ],
    )
  })

  test('broadcast: with ack the server acknowledges the message', async () => {
    const { anon } = fixture()
    const name = topic()
    const other = await newSubscriber(anon(), name).join()
    for (const self of [false, true]) {
      const one = await newSubscriber(anon(), name, { broadcast: { ack: true, self } }).join()
      assert.equal(await one.channel.send(message(`self ${self}`, {})), 'ok')
      await other.receivesBroadcast(`self ${self}`)
    }
  })

  test('broadcast: handlers receive the events they name, ignoring case', async () => {
    const { anon } = fixture()
    const name = topic()
    const [from, to] = [newSubscriber(anon(), name), newSubscriber(anon(), name)]
    const received: string[] = []
    to.channel.on('broadcast', { event: 'Wanted' }, ({ event }) => void received.push(event))
    await Promise.all([from.join(), to.join()])
    for (const event of ['other', 'wanted', 'WANTED', 'end']) await from.channel.send(message(event, {}))
    await to.receivesBroadcast('end')
    assert.deepEqual(received, ['wanted', 'WANTED'])
    assert.deepEqual(to.events(), ['other', 'wanted', 'WANTED', 'end'])
  })

  test('broadcast: messages arrive in the order of sending', async () => {
    const { anon } = fixture()
    const name = topic()
    const [from, to] = await Promise.all([anon(), anon()].map(client => newSubscriber(client, name).join()))
    const count = 500
    for (let n = 0; n < count; n++) void from!.channel.send(message('n', { n }))
    await from!.channel.send(message('end', {}))
    await to!.receivesBroadcast('end')
    assert.deepEqual(
      to!.broadcasts.slice(0, -1).map(each => each.payload.n),
      Array.from({ length: count }, (_, n) => n),
    )
  })

  test('broadcast: any JSON payload and any event name are accepted', async () => {
    const { anon } = fixture()
    const name = topic('größe/🗼?x#y')
    const [from, to] = await Promise.all([anon(), anon()].map(client => newSubscriber(client, name).join()))
    const payloads = [{}, [], [1, [2]], 'text', '', 0, false, { 'a.b': { __proto__x: 1 }, '': '' }]
    for (const payload of payloads) await from!.channel.send(message('any', payload))
    for (const event of ['ünïcode 🎉', 'a:b/c', 'phx_close', 'presence', 'e'.repeat(255)])
      await from!.channel.send(message(event, { event }))
    await from!.channel.send(message('end', {}))
    await to!.receivesBroadcast('end')
    assert.deepEqual(
      to!.broadcasts.slice(0, payloads.length).map(each => each.payload),
      payloads,
    )
    for (const { event, payload } of to!.broadcasts.slice(payloads.length, -1))
      assert.equal(payload.event, event)
    assert.equal(to!.broadcasts.length, payloads.length + 6)
    assert.deepEqual(to!.statuses, ['SUBSCRIBED'])
  })

  test('broadcast: clients that left, or are on another topic or project, receive nothing', async () => {
    const { platform, shape, anon } = fixture()
    const name = topic()
    const neighbour = await createFixture(platform, shape)
    const [from, stays, leaves, elsewhere, abroad] = await Promise.all([
      newSubscriber(anon(), name).join(),
      newSubscriber(anon(), name).join(),
      newSubscriber(anon(), name).join(),
      newSubscriber(anon(), `${name} 2`).join(),
      newSubscriber(neighbour.anon(), name).join(),
    ])
    assert.equal(await leaves.channel.unsubscribe(), 'ok')
    await from.channel.send(message('secret', {}))
    await stays.receivesBroadcast('secret')
    // A later message on the same path arrives, so the earlier one was not sent.
    await newSubscriber(anon(), `${name} 2`).channel.httpSend('end', {})
    await newSubscriber(neighbour.anon(), name).channel.httpSend('end', {})
    await Promise.all([elsewhere.receivesBroadcast('end'), abroad.receivesBroadcast('end')])
    for (const { broadcasts } of [leaves, elsewhere, abroad])
      assert.deepEqual(
        broadcasts.filter(each => each.event === 'secret'),
        [],
      )
  })

  test('broadcast: a channel that is not joined sends over HTTP', async () => {
    const { anon, service } = fixture()
    const name = topic()
    const to = await newSubscriber(anon(), name).join()
    const channel = anon(quiet).channel(name)
    assert.equal(await channel.send(message('before', { n: 1 })), 'ok')
    assert.deepEqual((await to.receivesBroadcast('before')).payload, { n: 1 })
    const left = newSubscriber(service(quiet), name)
    await left.join()
    await left.channel.unsubscribe()
    assert.equal(await left.channel.send(message('after', { n: 2 })), 'ok')
    await to.receivesBroadcast('after')
  })

  test('broadcast: httpSend needs no socket, takes any topic and event, and waits for the response', async () => {
    const { anon, service } = fixture()
    const name = topic('a/b c?d=e&f#g%20 東京')
    const to = await newSubscriber(anon(), name).join()
    for (const client of [anon(), service()]) {
      const event = `x/y z?${Math.random()}`
      assert.deepEqual(await client.channel(name).httpSend(event, { from: 'far' }), { success: true })
      assert.deepEqual((await to.receivesBroadcast(event)).payload, { from: 'far' })
      assert.equal(client.isConnected(), false)
    }
    await assert.rejects(anon().channel(name).httpSend('none', null), /Payload is required/)
    await anon().channel(name).httpSend('text', 'just text')
    assert.equal((await to.receivesBroadcast('text')).payload, 'just text')
  })

  test('broadcast: HTTP rejects an invalid key with a message', async () => {
    const { as } = fixture()
    const channel = as('nonsense', quiet).channel('room')
    await assert.rejects(channel.httpSend('event', {}), (error: Error) => error.message.length > 3)
    assert.equal(await channel.send(message('event', {})), 'error')
  })

  test('broadcast: a message that is too large is rejected, and the channel stays open', async () => {
    const { anon } = fixture()
    const name = topic()
    const to = await newSubscriber(anon(), name).join()
    const from = await newSubscriber(anon(), name, { broadcast: { ack: true } }).join()
    const large = { text: 'x'.repeat(3_100_000) }
    assert.equal(await from.channel.send(message('large', large)), 'error')
    await assert.rejects(from.channel.httpSend('large', large), (error: Error) => error.message.length < 500)
    const fitting = { text: 'y'.repeat(1_000_000) }
    assert.equal(await from.channel.send(message('fits', fitting)), 'ok')
    const { payload } = await to.receivesBroadcast('fits')
    assert.ok(payload.text === fitting.text, 'the text is unchanged')
    assert.deepEqual(to.events(), ['fits'])
    assert.deepEqual(from.statuses, ['SUBSCRIBED'])
  })

  test('broadcast: clients of both protocol versions receive each other', async () => {
    const { platform, project, shape, anon } = fixture()
    const other = oldest.connect(platform.url, project.id, project.anon_key)
    const name = topic()
    const [one, two] = await Promise.all([
      newSubscriber(anon(), name).join(),
      newSubscriber(other, name).join(),
    ])
    await one.channel.send(message('to the old', { v: shape.vsn }))
    assert.deepEqual((await two.receivesBroadcast('to the old')).payload, { v: shape.vsn })
    await two.channel.send(message('to the new', { list: [1] }))
    assert.deepEqual((await one.receivesBroadcast('to the new')).payload, { list: [1] })
  })

  test('broadcast: binary payloads arrive as bytes in version 2.0.0', async () => {
    const { platform, project, shape, anon } = fixture()
    if (shape.vsn === '1.0.0') return sendsBytesByHttp(fixture())
    const name = topic()
    const old = oldest.connect(platform.url, project.id, project.anon_key)
    const [from, to, ofOld] = await Promise.all([
      newSubscriber(anon(), name, { broadcast: { ack: true } }).join(),
      newSubscriber(anon(), name).join(),
      newSubscriber(old, name).join(),
    ])
    const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => index % 251)
    assert.equal(await from.channel.send(message('bytes', bytes.buffer)), 'ok')
    assert.equal(await from.channel.send(message('none', new ArrayBuffer(0))), 'ok')
    assert.deepEqual(await from.channel.httpSend('by http', bytes), { success: true })
    await from.channel.send(message('end', {}))
    for (const event of ['bytes', 'none', 'by http']) {
      const { payload } = await to.receivesBroadcast(event)
      const length = event === 'none' ? 0 : bytes.length
      assert.ok(payload instanceof ArrayBuffer && payload.byteLength === length, event)
      assert.ok(Buffer.from(payload).equals(Buffer.from(bytes.subarray(0, length))), event)
    }
    // A 1.0.0 client gets no binary messages, because it cannot decode them.
    await ofOld.receivesBroadcast('end')
    assert.deepEqual(ofOld.events(), ['end'])
  })
}

/** The client that cannot decode it receives nothing, and stays connected. */
async function sendsBytesByHttp({ anon }: Fixture): Promise<void> {
  const name = topic()
  const to = await newSubscriber(anon(), name).join()
  const sender = anon().channel(name)
  assert.deepEqual(await sender.httpSend('bytes', new Uint8Array([1, 2, 3])), { success: true })
  await sender.httpSend('end', {})
  await to.receivesBroadcast('end')
  assert.deepEqual(to.events(), ['end'])
}
