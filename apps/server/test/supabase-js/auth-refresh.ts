// refreshSession: one active refresh token per session, also with lost, repeated or stolen tokens.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimsOf, dataOf, looksLikeSession, methodsOf, refused, sessionMissing } from './auth-objects.ts'
import { remaining } from './auth-sessions.ts'
import type { AuthProject, Setup } from './auth-setup.ts'
import { inMemory } from './auth-shapes.ts'
import { listening } from './auth-state-changes.ts'
import { newUser, signIn } from './auth-users.ts'

/** A refresh by a new client that has only this token. */
const refresh = (project: AuthProject, refresh_token: string) =>
  project.connect().refreshSession({ refresh_token })

export function refreshTests(setup: () => Setup): void {
  describe('refreshSession', () => {
    test('returns the same session with new tokens', async () => {
      const { open } = setup()
      const { auth, session, user } = await newUser(open)
      const { session: next, user: same } = dataOf(await auth.refreshSession())
      looksLikeSession(next)
      assert.notEqual(next.refresh_token, session.refresh_token)
      assert.equal(same?.id, user.id)
      assert.deepEqual(next.user, same)
      const [before, after] = [claimsOf(session), claimsOf(next)]
      assert.equal(after.session_id, before.session_id)
      assert.deepEqual(after.amr, before.amr)
      assert.deepEqual(methodsOf(next), ['password'])
      assert.deepEqual((await auth.getSession()).data.session, next)
    })

    test('returns the current user', async () => {
      const { open } = setup()
      const { auth, user } = await newUser(open)
      dataOf(await open.admin.updateUserById(user.id, { app_metadata: { plan: 'gold' } }))
      const { session } = dataOf(await auth.refreshSession())
      assert.equal(session?.user.app_metadata['plan'], 'gold')
      assert.equal(claimsOf(session!).app_metadata['plan'], 'gold')
    })

    test('fails without a session and with an unknown token', async () => {
      const { open } = setup()
      sessionMissing(await open.connect().refreshSession())
      refused(await refresh(open, 'nosuchtoken1'), 400, 'refresh_token_not_found')
      const missing = await open.call('POST', '/token?grant_type=refresh_token', { body: {} })
      assert.deepEqual([missing.status, typeof missing.body.error_description], [400, 'string'])
    })

    test('the parent token returns the active one, because the first answer may be lost', async () => {
      const strict = await setup().project({ refresh_token_reuse_interval_seconds: 0 })
      const { session } = await newUser(strict)
      const first = dataOf(await refresh(strict, session.refresh_token)).session!
      const again = dataOf(await refresh(strict, session.refresh_token)).session!
      assert.equal(again.refresh_token, first.refresh_token)
      looksLikeSession(again)
      assert.equal(claimsOf(again).session_id, claimsOf(session).session_id)
      dataOf(await refresh(strict, first.refresh_token))
    })

    test('an older token within the reuse interval returns the active one', async () => {
      const patient = await setup().project({ refresh_token_reuse_interval_seconds: 300 })
      const { session } = await newUser(patient)
      const first = dataOf(await refresh(patient, session.refresh_token)).session!
      const second = dataOf(await refresh(patient, first.refresh_token)).session!
      const again = dataOf(await refresh(patient, session.refresh_token)).session!
      assert.equal(again.refresh_token, second.refresh_token)
    })

    test('an older token after the reuse interval ends the session', async () => {
      const strict = await setup().project({ refresh_token_reuse_interval_seconds: 0 })
      const { session, email } = await newUser(strict)
      const bystander = await signIn(strict, email)
      const first = dataOf(await refresh(strict, session.refresh_token)).session!
      const second = dataOf(await refresh(strict, first.refresh_token)).session!
      refused(await refresh(strict, session.refresh_token), 400, 'refresh_token_already_used')
      const { data, error } = await refresh(strict, second.refresh_token)
      assert.deepEqual([error?.status, data.session], [400, null])
      sessionMissing(await strict.connect().getUser(second.access_token))
      dataOf(await bystander.auth.refreshSession())
    })

    test('concurrent refreshes give one token of one session', async () => {
      const { open } = setup()
      const { session } = await newUser(open)
      const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(open, session.refresh_token)))
      const sessions = answers.map(answer => dataOf(answer).session!)
      assert.equal(new Set(sessions.map(({ refresh_token }) => refresh_token)).size, 1)
      assert.deepEqual(
        [...new Set(sessions.map(each => claimsOf(each).session_id))],
        [claimsOf(session).session_id],
      )
      dataOf(await refresh(open, sessions[0]!.refresh_token))
    })

    test('a session that was not refreshed for long has expired', async () => {
      const resting = await setup().project()
      const { session } = await newUser(resting)
      await resting.expireSessions()
      refused(await refresh(resting, session.refresh_token), 400, 'session_expired')
    })

    test('a token is valid in its own project only', async () => {
      const { open, confirming } = setup()
      const { session } = await newUser(open)
      refused(await refresh(confirming, session.refresh_token), 400, 'refresh_token_not_found')
      dataOf(await refresh(open, session.refresh_token))
    })

    test('a banned user is refused', async () => {
      const { open } = setup()
      const { auth, user } = await newUser(open)
      dataOf(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      refused(await auth.refreshSession(), 400, 'user_banned')
    })

    test('a client whose token has expired and cannot be refreshed signs out', async () => {
      const { open } = setup()
      const storage = inMemory()
      const { auth, user } = await newUser(open, { storage })
      dataOf(await open.admin.deleteUser(user.id))
      remaining(storage, -10)
      const { data, error } = await auth.getSession()
      assert.equal(data.session, null)
      assert.equal(error?.status, 400)
      assert.equal(storage.values.size, 0)
    })
  })

  describe('startAutoRefresh', () => {
    test('refreshes a session that is about to expire, until it is stopped', async () => {
      const { open } = setup()
      const storage = inMemory()
      const { auth, session } = await newUser(open, { storage })
      const watch = await listening(auth)
      remaining(storage, 30)
      await auth.startAutoRefresh()
      await watch.received('TOKEN_REFRESHED')
      const { data } = await auth.getSession()
      assert.notEqual(data.session?.refresh_token, session.refresh_token)
      await auth.stopAutoRefresh()
      dataOf(await auth.getUser())
    })
  })
}
