// 1 §4.5 and auth contract §4: the sessions that a sign-out ends, and where their tokens stop working.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, assertAuthError, authProject, type SignedIn, succeeded } from '../auth.ts'
import { sleep } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
})
after(() => it.stop())

async function devices(): Promise<[SignedIn, SignedIn, SignedIn]> {
  const me = await auth.signUp()
  return [me, await auth.signIn(me), await auth.signIn(me)]
}
async function assertEnded(session: SignedIn): Promise<void> {
  assertAuthError(await auth.get('/user', { token: session.token }), 403, 'session_not_found')
  const reply = await auth.post('/token?grant_type=refresh_token', { refresh_token: session.refreshToken })
  assert.equal(reply.status, 400, reply.text)
  assert.ok(['session_not_found', 'refresh_token_not_found'].includes(reply.body.code), reply.text)
}
async function assertGoesOn(session: SignedIn): Promise<void> {
  assert.equal(succeeded(await auth.get('/user', { token: session.token })).id, session.id)
  const refreshed = await auth.post('/token?grant_type=refresh_token', {
    refresh_token: session.refreshToken,
  })
  assert.equal(succeeded(refreshed).user.id, session.id)
}
async function logout(session: SignedIn, query = '', path = '/logout'): Promise<void> {
  const reply = await auth.post(path + query, undefined, { token: session.token })
  assert.deepEqual([reply.status, reply.text], [204, ''], reply.text)
}

for (const path of ['/logout', '/sign-out']) {
  test(`auth contract §4: ${path} without a scope ends all sessions of the user`, async () => {
    for (const query of ['', '?scope=global']) {
      const [here, phone, tablet] = await devices()
      await logout(here, query, path)
      for (const session of [here, phone, tablet]) await assertEnded(session)
    }
  })

  test(`auth contract §4: ${path} with scope local ends the session of the token`, async () => {
    const [here, phone, tablet] = await devices()
    await logout(here, '?scope=local', path)
    await assertEnded(here)
    for (const session of [phone, tablet]) await assertGoesOn(session)
  })

  test(`auth contract §4: ${path} with scope others ends all but the session of the token`, async () => {
    const [here, phone, tablet] = await devices()
    await logout(here, '?scope=others', path)
    await assertGoesOn(here)
    for (const session of [phone, tablet]) await assertEnded(session)
  })
}

test('auth contract §4: an unknown scope is 400 and ends no session', async () => {
  const [here, phone] = await devices()
  for (const scope of ['nosuch', 'GLOBAL'])
    assertAuthError(
      await auth.post(`/logout?scope=${scope}`, undefined, { token: here.token }),
      400,
      'validation_failed',
    )
  for (const session of [here, phone]) await assertGoesOn(session)
})

test('auth contract §4: sessions of other users stay', async () => {
  const [me, stranger] = [await auth.signUp(), await auth.signUp()]
  await logout(me)
  await assertGoesOn(stranger)
})

test('auth contract §4: a second sign-out with the same JWT is refused', async () => {
  const me = await auth.signUp()
  await logout(me)
  assertAuthError(await auth.post('/logout', undefined, { token: me.token }), 403, 'session_not_found')
})

test('auth contract §4: without a user a sign-out is 401', async () => {
  assertAuthError(await auth.post('/logout'), 401, 'no_authorization')
  assertAuthError(await auth.post('/logout', undefined, { as: 'service_role' }), 401, 'no_authorization')
  assertAuthError(await auth.post('/logout', undefined, { token: 'a.b.c' }), 401, 'bad_jwt')
})

test('auth contract §11: an administrator signs a user out with the user’s JWT', async () => {
  const [here, phone, tablet] = await devices()
  const reply = await auth.post('/logout?scope=others', undefined, { as: 'service_role', token: here.token })
  assert.equal(reply.status, 204, reply.text)
  await assertGoesOn(here)
  for (const session of [phone, tablet]) await assertEnded(session)
})

test('clarifications: the tokens of an ended session stop working everywhere, the others do not', async () => {
  const [here, phone] = await devices()
  const whoami = (session: SignedIn) =>
    it.call('GET', `/v1/whoami/${auth.project.id}`, {
      apikey: auth.project.anon_key,
      token: session.token,
    })
  assert.equal((await whoami(here)).status, 200)
  await logout(here, '?scope=local')
  const deadline = Date.now() + 60_000
  while ((await whoami(here)).status === 200) {
    assert.ok(Date.now() < deadline, 'the token of an ended session is still taken')
    await sleep(50)
  }
  assert.equal((await whoami(here)).status, 401)
  assert.equal((await whoami(phone)).status, 200)
})

test('auth contract §4: signing in again after a sign-out is a new session', async () => {
  const me = await auth.signUp()
  await logout(me)
  const again = await auth.signIn(me)
  assert.notEqual(again.sessionId, me.sessionId)
  await assertGoesOn(again)
  await assertEnded(me)
})
