// Clients that do not read their answer, and clients that wait for one.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

/** The log lines of ended answers of a project's `exec_sql`. */
const recordsOf = (project: string): { status: number }[] =>
  platform.logged
    .map(line => JSON.parse(line))
    .filter(line => line.project === project && line.route?.includes('/rpc/'))

test('stalled clients: a client that does not read for 30 seconds is disconnected, one that waits for an answer is not', async () => {
  const { id, service_role_key: token } = await platform.createProject()
  const run = (text: string) =>
    platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, { token, body: { sql: text } })
  const slow = run('select pg_sleep(36)')

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
  await eventually(() => recordsOf(id).length === 2, 'the other answer has ended too')
  // The client receives the buffered part and the end of the connection.
  let received = 0
  socket.on('data', chunk => (received += chunk.length))
  socket.resume()
  await once(socket, 'close')
  assert.ok(received > 10_000 && received < 40_000_000, `${received} bytes received`)
})

test('stalled clients: a request whose client disconnects before the answer is recorded once, with status 499', async () => {
  const { id, service_role_key } = await platform.createProject()
  const client = new AbortController()
  const headers = { authorization: `Bearer ${service_role_key}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ sql: `select pg_sleep(600) /* ${id} */` })
  const answer = fetch(`${platform.url}/v1/rest/${id}/rpc/exec_sql`, {
    method: 'POST',
    headers,
    body,
    signal: client.signal,
  })
  const running = sql`select from pg_stat_activity where state = 'active' and query like ${`%pg_sleep(600) /* ${id} */%`}`
  await eventually(() => platform.app.control.row(running), 'the statement runs')
  client.abort()
  await assert.rejects(answer)
  await eventually(() => recordsOf(id).length > 0, 'a record')
  assert.deepEqual(
    recordsOf(id).map(line => line.status),
    [499],
  )
})
