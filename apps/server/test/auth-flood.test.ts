// Case 24: a flood of sign-ins. Passwords are hashed in turns, of which each project has a line; what does not fit into
// it is refused, and neither other routes nor other projects stand behind it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type AuthProject, authProject } from './signed-up.ts'

let platform: TestPlatform
let flooded: AuthProject
let quiet: AuthProject
before(async () => {
  platform = await startPlatform()
  ;[flooded, quiet] = [await authProject(platform), await authProject(platform)]
  await quiet.signUp('ada@example.test')
})
after(() => platform.stop())

test('case 24: a flood at one project is refused past its bound and holds up nobody else', async () => {
  let answered = 0
  const flood = Array.from({ length: 150 }, async () => {
    const reply = await flooded.signIn('nobody@example.test', 'wrong horse')
    answered++
    return reply
  })
  const whoami = platform.call('GET', `/v1/whoami/${flooded.id}`, { apikey: flooded.anon_key })
  const elsewhere = quiet.signIn('ada@example.test')
  assert.equal((await whoami).status, 200)
  assert.equal((await elsewhere).status, 200)
  assert.ok(answered < 150, 'before the flood was over')

  const replies = await Promise.all(flood)
  const refused = replies.filter(({ status }) => status === 429)
  assert.ok(refused.length > 0)
  for (const { headers, body } of refused) {
    assert.equal(headers.get('retry-after'), '1')
    assert.match(body.code, /^(hashing_busy|pool_exhausted)$/)
  }
  const served = replies.filter(({ status }) => status !== 429)
  assert.ok(served.length > 0)
  for (const { status, body } of served) {
    assert.equal(status, 400)
    assert.equal(body.code, 'invalid_credentials')
  }
  assert.equal((await flooded.signIn('nobody@example.test')).status, 400, 'and then it is over')
})
