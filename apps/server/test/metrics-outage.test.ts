import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
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

test('metrics, health: without Postgres a scrape is 200 and both say that it is down', async () => {
  const { token } = await platform.platform.mintToken({ body: { name: 'monitoring', scope: 'read' } })
  const health = async (token?: string) => {
    const { status, body } = await platform.call(
      'GET',
      '/health/services',
      token === undefined ? {} : { token },
    )
    return [status, body.status, body.services.database.status, body.services.backups.problems]
  }
  // A credential that cannot be checked within a second is ignored.
  const isUp = async () => isDeepStrictEqual(await health(token), [200, 'ok', 'ok', []])
  await eventually(isUp, 'health is ok')
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
  const down = [503, 'unavailable', 'down']
  // The platform knows the admin token without the database.
  assert.deepEqual(await health(platform.adminToken), [...down, []])
  for (const unverifiable of [undefined, token, 'wrong'])
    assert.deepEqual(await health(unverifiable), [...down, undefined])
})
