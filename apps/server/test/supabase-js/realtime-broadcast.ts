// Messages between clients: to others, to oneself, acknowledged, in bytes, and without joining at all.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { oldest } from './realtime-shapes.ts'
import { ear, type Stage, setStage, topic } from './realtime-stage.ts'

const say = (event: string, payload?: unknown) => ({ type: 'broadcast' as const, event, payload })
/** The client says so when it falls back to HTTP. */
const quiet = { logger: () => {} }

export function broadcastTests(stage: () => Stage): void {
  test('a message reaches everybody else on the channel, as it was sent', async () => {
    const { anon, service } = stage()
    const name = topic()
    const [from, ...others] = await Promise.all(
      [anon(), anon(), service()].map(client => ear(client, name).join()),
    )
    const payload = { text: 'grüße 🎈', list: [1, null, { deep: true }], empty: {}, number: 1.5 }
    assert.equal(await from!.channel.send(say('greeting', payload)), 'ok')
    for (const other of others) {
      const { type, event, payload: got } = await other.hearsOf('greeting')
      assert.deepEqual([type, event, got], ['broadcast', 'greeting', payload])
    }
    await others[0]!.channel.send(say('answer', {}))
    await from!.hearsOf('answer')
    // Its own did not come back before the answer did.
    assert.deepEqual(from!.events(), ['answer'])
  })

  test('with self a message comes back to its sender, once', async () => {
    const { anon } = stage()
    const one = await ear(anon(), topic(), { broadcast: { self: true } }).join()
    await one.channel.send(say('first', { n: 1 }))
    await one.channel.send(say('second', { n: 2 }))
    await one.hearsOf('second')
    assert.deepEqual(
      one.broadcasts.map(each => [each.event, each.payload]),
      [
        ['first', { n: 1 }],
        ['second', { n: 2 }],
      ],
    )
  })

  test('with ack the sender learns that the server has it', async () => {
    const { anon } = stage()
    const name = topic()
    const other = await ear(anon(), name).join()
    for (const self of [false, true]) {
      const one = await ear(anon(), name, { broadcast: { ack: true, self } }).join()
      assert.equal(await one.channel.send(say(`self ${self}`, {})), 'ok')
      await other.hearsOf(`self ${self}`)
    }
  })

  test('listeners hear the events they name, without regard to case', async () => {
    const { anon } = stage()
    const name = topic()
    const [from, to] = [ear(anon(), name), ear(anon(), name)]
    const heard: string[] = []
    to.channel.on('broadcast', { event: 'Wanted' }, ({ event }) => void heard.push(event))
    await Promise.all([from.join(), to.join()])
    for (const event of ['other', 'wanted', 'WANTED', 'end']) await from.channel.send(say(event, {}))
    await to.hearsOf('end')
    assert.deepEqual(heard, ['wanted', 'WANTED'])
    assert.deepEqual(to.events(), ['other', 'wanted', 'WANTED', 'end'])
  })

  test('messages come in the order they were sent', async () => {
    const { anon } = stage()
    const name = topic()
    const [from, to] = await Promise.all([anon(), anon()].map(client => ear(client, name).join()))
    const count = 500
    for (let n = 0; n < count; n++) void from!.channel.send(say('n', { n }))
    await from!.channel.send(say('end', {}))
    await to!.hearsOf('end')
    assert.deepEqual(
      to!.broadcasts.slice(0, -1).map(each => each.payload.n),
      Array.from({ length: count }, (_, n) => n),
    )
  })

  test('any JSON may be sent, and any event named', async () => {
    const { anon } = stage()
    const name = topic('größe/🗼?x#y')
    const [from, to] = await Promise.all([anon(), anon()].map(client => ear(client, name).join()))
    const payloads = [{}, [], [1, [2]], 'text', '', 0, false, { 'a.b': { __proto__x: 1 }, '': '' }]
    for (const payload of payloads) await from!.channel.send(say('any', payload))
    for (const event of ['ünïcode 🎉', 'a:b/c', 'phx_close', 'presence', 'e'.repeat(255)])
      await from!.channel.send(say(event, { event }))
    await from!.channel.send(say('end', {}))
    await to!.hearsOf('end')
    assert.deepEqual(
      to!.broadcasts.slice(0, payloads.length).map(each => each.payload),
      payloads,
    )
    for (const { event, payload } of to!.broadcasts.slice(payloads.length, -1))
      assert.equal(payload.event, event)
    assert.equal(to!.broadcasts.length, payloads.length + 6)
    assert.deepEqual(to!.statuses, ['SUBSCRIBED'])
  })

  test('who has left, is elsewhere or in another project hears nothing', async () => {
    const { platform, shape, anon } = stage()
    const name = topic()
    const neighbour = await setStage(platform, shape)
    const [from, stays, leaves, elsewhere, abroad] = await Promise.all([
      ear(anon(), name).join(),
      ear(anon(), name).join(),
      ear(anon(), name).join(),
      ear(anon(), `${name} 2`).join(),
      ear(neighbour.anon(), name).join(),
    ])
    assert.equal(await leaves.channel.unsubscribe(), 'ok')
    await from.channel.send(say('secret', {}))
    await stays.hearsOf('secret')
    // What comes later on the same paths is heard, so what did not come before never will.
    await ear(anon(), `${name} 2`).channel.httpSend('end', {})
    await ear(neighbour.anon(), name).channel.httpSend('end', {})
    await Promise.all([elsewhere.hearsOf('end'), abroad.hearsOf('end')])
    for (const { broadcasts } of [leaves, elsewhere, abroad])
      assert.deepEqual(
        broadcasts.filter(each => each.event === 'secret'),
        [],
      )
  })

  test('a channel that is not joined sends by HTTP', async () => {
    const { anon, service } = stage()
    const name = topic()
    const to = await ear(anon(), name).join()
    const channel = anon(quiet).channel(name)
    assert.equal(await channel.send(say('before', { n: 1 })), 'ok')
    assert.deepEqual((await to.hearsOf('before')).payload, { n: 1 })
    const left = ear(service(quiet), name)
    await left.join()
    await left.channel.unsubscribe()
    assert.equal(await left.channel.send(say('after', { n: 2 })), 'ok')
    await to.hearsOf('after')
  })

  test('httpSend needs no socket, carries any topic and event, and waits for the answer', async () => {
    const { anon, service } = stage()
    const name = topic('a/b c?d=e&f#g%20 東京')
    const to = await ear(anon(), name).join()
    for (const client of [anon(), service()]) {
      const event = `x/y z?${Math.random()}`
      assert.deepEqual(await client.channel(name).httpSend(event, { from: 'far' }), { success: true })
      assert.deepEqual((await to.hearsOf(event)).payload, { from: 'far' })
      assert.equal(client.isConnected(), false)
    }
    await assert.rejects(anon().channel(name).httpSend('none', null), /Payload is required/)
    await anon().channel(name).httpSend('text', 'just text')
    assert.equal((await to.hearsOf('text')).payload, 'just text')
  })

  test('HTTP refuses a key that is none, in words', async () => {
    const { as } = stage()
    const channel = as('nonsense', quiet).channel('room')
    await assert.rejects(channel.httpSend('event', {}), (error: Error) => error.message.length > 3)
    assert.equal(await channel.send(say('event', {})), 'error')
  })

  test('a message that is too large is refused, and the channel goes on', async () => {
    const { anon } = stage()
    const name = topic()
    const to = await ear(anon(), name).join()
    const from = await ear(anon(), name, { broadcast: { ack: true } }).join()
    const large = { text: 'x'.repeat(3_100_000) }
    assert.equal(await from.channel.send(say('large', large)), 'error')
    await assert.rejects(from.channel.httpSend('large', large), (error: Error) => error.message.length < 500)
    const fitting = { text: 'y'.repeat(1_000_000) }
    assert.equal(await from.channel.send(say('fits', fitting)), 'ok')
    const { payload } = await to.hearsOf('fits')
    assert.ok(payload.text === fitting.text, 'the text as it was')
    assert.deepEqual(to.events(), ['fits'])
    assert.deepEqual(from.statuses, ['SUBSCRIBED'])
  })

  test('clients of both versions hear each other', async () => {
    const { platform, project, shape, anon } = stage()
    const other = oldest.connect(platform.url, project.id, project.anon_key)
    const name = topic()
    const [one, two] = await Promise.all([ear(anon(), name).join(), ear(other, name).join()])
    await one.channel.send(say('to the old', { v: shape.vsn }))
    assert.deepEqual((await two.hearsOf('to the old')).payload, { v: shape.vsn })
    await two.channel.send(say('to the new', { list: [1] }))
    assert.deepEqual((await one.hearsOf('to the new')).payload, { list: [1] })
  })

  test('bytes arrive as bytes where the version of the protocol has them', async () => {
    const { platform, project, shape, anon } = stage()
    if (shape.vsn === '1.0.0') return sendsBytesByHttp(stage())
    const name = topic()
    const old = oldest.connect(platform.url, project.id, project.anon_key)
    const [from, to, ofOld] = await Promise.all([
      ear(anon(), name, { broadcast: { ack: true } }).join(),
      ear(anon(), name).join(),
      ear(old, name).join(),
    ])
    const bytes = Uint8Array.from({ length: 70_000 }, (_, index) => index % 251)
    assert.equal(await from.channel.send(say('bytes', bytes.buffer)), 'ok')
    assert.equal(await from.channel.send(say('none', new ArrayBuffer(0))), 'ok')
    assert.deepEqual(await from.channel.httpSend('by http', bytes), { success: true })
    await from.channel.send(say('end', {}))
    for (const event of ['bytes', 'none', 'by http']) {
      const { payload } = await to.hearsOf(event)
      const length = event === 'none' ? 0 : bytes.length
      assert.ok(payload instanceof ArrayBuffer && payload.byteLength === length, event)
      assert.ok(Buffer.from(payload).equals(Buffer.from(bytes.subarray(0, length))), event)
    }
    // A client without binary messages is not sent what it could not read.
    await ofOld.hearsOf('end')
    assert.deepEqual(ofOld.events(), ['end'])
  })
}

/** Nothing comes to a client that could not read it, and it lives on. */
async function sendsBytesByHttp({ anon }: Stage): Promise<void> {
  const name = topic()
  const to = await ear(anon(), name).join()
  const sender = anon().channel(name)
  assert.deepEqual(await sender.httpSend('bytes', new Uint8Array([1, 2, 3])), { success: true })
  await sender.httpSend('end', {})
  await to.hearsOf('end')
  assert.deepEqual(to.events(), ['end'])
}
