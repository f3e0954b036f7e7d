import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { openTransport } from './transport.ts'

test('transport: a connection that the server resets while nobody listens for errors ends nothing else', async t => {
  const accepted = Promise.withResolvers<Socket>()
  const server = createServer(accepted.resolve).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const { socket } = await openTransport({
    host: '127.0.0.1',
    port,
    user: 'nobody',
    password: '',
    tls: undefined,
  })
  const closed = new Promise<boolean>(resolve => socket.once('close', resolve))
  ;(await accepted.promise).resetAndDestroy()
  socket.write('a message that nobody receives')
  assert.equal(await closed, true, 'it was closed by an error')
})
