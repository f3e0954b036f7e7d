// signOut with its three scopes, and admin.signOut.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dataOf, sessionMissing } from './auth-objects.ts'
import type { AuthProject, Setup } from './auth-setup.ts'
import { newUser, type SignedInUser, signIn } from './auth-users.ts'

const isAlive = async (project: AuthProject, { session }: SignedInUser) =>
  (await project.connect().getUser(session.access_token)).error === null

/** Three clients of one user. */
async function three(project: AuthProject): Promise<[SignedInUser, SignedInUser, SignedInUser]> {
  const first = await newUser(project)
  return [first, await signIn(project, first.email), await signIn(project, first.email)]
}

export function signOutTests(setup: () => Setup): void {
  describe('signOut', () => {
    test('ends every session of the user by default', async () => {
      const { open } = setup()
      const [one, two] = await three(open)
      const other = await newUser(open)
      assert.deepEqual(await one.auth.signOut(), { error: null })
      assert.equal((await one.auth.getSession()).data.session, null)
      assert.equal(await isAlive(open, one), false)
      sessionMissing(await two.auth.getUser())
      assert.equal(await isAlive(open, other), true)
    })

    test('scope local ends only this session', async () => {
      const { open } = setup()
      const [one, two, three_] = await three(open)
      assert.deepEqual(await one.auth.signOut({ scope: 'local' }), { error: null })
      assert.equal((await one.auth.getSession()).data.session, null)
      assert.equal(await isAlive(open, one), false)
      assert.equal(await isAlive(open, two), true)
      dataOf(await three_.auth.refreshSession())
    })

    test('scope others ends all other sessions', async () => {
      const { open } = setup()
      const [one, two, three_] = await three(open)
      assert.deepEqual(await one.auth.signOut({ scope: 'others' }), { error: null })
      assert.deepEqual((await one.auth.getSession()).data.session, one.session)
      dataOf(await one.auth.refreshSession())
      assert.equal(await isAlive(open, two), false)
      assert.equal(await isAlive(open, three_), false)
    })

    test('a refresh token ends with its session', async () => {
      const { open } = setup()
      const { auth, session } = await newUser(open)
      assert.equal((await auth.signOut()).error, null)
      const { refresh_token } = session
      const { data, error } = await open.connect().refreshSession({ refresh_token })
      assert.deepEqual([error?.status, data.session], [400, null])
    })

    test('answers 204, and refuses without a user or with an unknown scope', async () => {
      const { open } = setup()
      const { session } = await newUser(open)
      const odd = await open.call('POST', '/logout?scope=some', { token: session.access_token })
      assert.deepEqual([odd.status, odd.body.error_code], [400, 'validation_failed'])
      const done = await open.call('POST', '/logout?scope=local', { token: session.access_token })
      assert.deepEqual([done.status, done.body], [204, ''])
      const again = await open.call('POST', '/logout?scope=local', { token: session.access_token })
      assert.deepEqual([again.status, again.body.error_code], [403, 'session_not_found'])
      const nobody = await open.call('POST', '/logout')
      assert.deepEqual([nobody.status, nobody.body.error_code], [401, 'no_authorization'])
    })

    test('gives no error if the session has already ended', async () => {
      const { open } = setup()
      const [one, two] = await three(open)
      assert.equal((await one.auth.signOut()).error, null)
      assert.deepEqual(await two.auth.signOut(), { error: null })
      assert.deepEqual(await one.auth.signOut(), { error: null })
      assert.deepEqual(await open.connect().signOut(), { error: null })
    })
  })

  describe('admin.signOut', () => {
    test('ends the sessions of the user of the given token', async () => {
      const { open } = setup()
      const [one, two, three_] = await three(open)
      const local = await open.admin.signOut(one.session.access_token, 'local')
      assert.deepEqual(local, { data: null, error: null })
      assert.deepEqual([await isAlive(open, one), await isAlive(open, two)], [false, true])
      assert.equal((await open.admin.signOut(two.session.access_token, 'others')).error, null)
      assert.deepEqual([await isAlive(open, two), await isAlive(open, three_)], [true, false])
      assert.equal((await open.admin.signOut(two.session.access_token)).error, null)
      assert.equal(await isAlive(open, two), false)
      const { error } = await open.admin.signOut('nonsense')
      assert.deepEqual([error?.status, error?.code], [401, 'bad_jwt'])
    })
  })
}
