// Clients that ask and do not read, and clients that wait.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

test('a client that takes nothing of its answer for half a minute is cut; one that waits for an answer is not', async () => {
  const { id, service_role_key: token } = await platform.createProject()
  const sql = (text: string) =>
    platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, { token, body: { sql: text } })
  const slow = sql('select pg_sleep(36)')

  const { hostname, port } = new URL(platform.url)
  const body = JSON.stringify({ sql: `select repeat('x', 1000000) from generate_series(1, 40)` })
  const socket = connect(Number(port), hostname)
  socket.pause()
  socket.on('error', () => {})
  socket.write(
    `POST /v1/rest/${id}/rpc/exec_sql HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  const { status } = await slow
  assert.equal(status, 200)
  // What it could have read by now, and then the end of it: the rest was never sent.
  let received = 0
  socket.on('data', chunk => (received += chunk.length))
  socket.resume()
  await once(socket, 'close')
  assert.ok(received > 10_000 && received < 40_000_000, `${received} bytes have come`)
})
