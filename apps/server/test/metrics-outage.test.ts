import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from './eventually.ts'
import { parseExposition } from './exposition.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

let server: OwnServer
let platform: TestPlatform
before(async () => {
  server = await startOwnServer()
  platform = await startPlatform({ server })
})
after(() => platform.stop())

test('metrics: without Postgres a scrape is 200 and says that it is down', async () => {
  const scrape = async () => {
    const { status, body } = await platform.call('GET', '/metrics')
    assert.equal(status, 200)
    return parseExposition(body)
  }
  assert.equal((await scrape()).get('plinth_postgres_up')?.samples[0]?.value, 1)
  await server.stop()
  const isDown = async () => (await scrape()).get('plinth_postgres_up')?.samples[0]?.value === 0
  // The answer of the first scrape is still fresh.
  await eventually(isDown, 'the database counts as down')
  const families = await scrape()
  assert.equal(families.has('plinth_queue_depth'), false)
  assert.ok(families.has('plinth_http_requests_total'))
})
