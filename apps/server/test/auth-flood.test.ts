// Case 24: a flood of sign-ins. Each project has a bounded queue for password hashing. A full queue refuses sign-ins
// and delays neither other routes nor other projects.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthProject, authProject } from './auth-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let flooded: AuthProject
let quiet: AuthProject
before(async () => {
  // The real cost of a hash: a cheap one is done before the next request arrives, and nothing waits.
  platform = await startPlatform({ bcryptCost: 10 })
  ;[flooded, quiet] = [await authProject(platform), await authProject(platform)]
  await quiet.signUp('ada@example.test')
})
after(() => platform.stop())

test('case 24: auth: a flood of sign-ins at one project is limited and does not delay other projects', async () => {
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
  assert.ok(answered < 150, 'during the flood')

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
  assert.equal(
    (await flooded.signIn('nobody@example.test')).status,
    400,
    'sign-ins are answered normally after the flood',
  )
})
