import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { createLog } from '#src/kernel/log.ts'
import type { ClientSocket } from './client-socket.ts'
import { createSockets } from './sockets.ts'
import { textFrame } from './websocket-frame.ts'

const log = createLog('silent', { write() {} })

/** A server whose sockets send back what they are sent, until the test has ended. */
async function echo(t: TestContext, pace?: { idleMs: number; sweepMs: number }) {
  const opened: ClientSocket[] = []
  const sockets = createSockets(log, () => 'an id', pace)
  sockets.mount({
    addresses: ['/echo/{name}'],
    admit: ({ params }) => params['name'],
    accept(name, socket) {
      opened.push(socket)
      return { message: data => socket.send(textFrame(`${name}: ${data}`)), closed() {} }
    },
    refuse: ({ message }) => ({ message }),
  })
  const server = createServer(
    { shouldUpgradeCallback: sockets.takes },
    (_request, reply) => void reply.end('plain'),
  )
  server.on('upgrade', sockets.upgrade)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    await sockets.close(1000)
    server.close()
  })
  const origin = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    opened,
    async open() {
      const client = new WebSocket(`ws://${origin}/echo/x`)
      await once(client, 'open')
      return client
    },
  }
}

const texts = (client: WebSocket): string[] => {
  const heard: string[] = []
  client.on('message', data => heard.push(String(data)))
  return heard
}

test('frames come in the order in which they were sent, whatever their number and size', async t => {
  const { opened, open } = await echo(t)
  const client = await open()
  const heard = texts(client)
  // Fewer than a slow reader may leave waiting.
  const sent = Array.from({ length: 100 }, (_, at) => `${at} ${'x'.repeat((at * 701) % 70_000)}`)
  for (const [at, text] of sent.entries()) {
    opened[0]!.send(textFrame(text))
    if (at % 20 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  opened[0]!.close(1000, 'that was all')
  opened[0]!.send(textFrame('too late'))
  const [code, reason] = await once(client, 'close')
  assert.deepEqual([code, String(reason)], [1000, 'that was all'])
  assert.ok(heard.length === sent.length && heard.every((text, at) => text === sent[at]))
})

test('a socket that says nothing is closed; a ping or a message is something', async t => {
  const { open } = await echo(t, { idleMs: 2000, sweepMs: 20 })
  const [pinging, talking, silent] = [await open(), await open(), await open()]
  const closed = once(silent, 'close')
  const beat = setInterval(() => {
    pinging.ping()
    talking.send('here')
  }, 50)
  t.after(() => clearInterval(beat))
  const [code, reason] = await closed
  assert.deepEqual([code, String(reason)], [1001, 'idle: nothing was heard for 2 seconds'])
  assert.deepEqual([pinging.readyState, talking.readyState], [WebSocket.OPEN, WebSocket.OPEN])
})

test('only what wants to be a socket at an address of one becomes one', async t => {
  const { origin, open } = await echo(t)
  assert.equal(await (await fetch(`http://${origin}/echo/x`)).text(), 'plain')
  const elsewhere = new WebSocket(`ws://${origin}/other`)
  elsewhere.on('error', () => {})
  const [, answer] = await once(elsewhere, 'unexpected-response')
  assert.equal(answer.statusCode, 200)
  elsewhere.terminate()
  const client = await open()
  client.send('hello')
  assert.equal(String((await once(client, 'message'))[0]), 'x: hello')
})
