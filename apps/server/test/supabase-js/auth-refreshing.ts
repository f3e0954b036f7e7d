// refreshSession: one active refresh token per session, whatever is lost, repeated or stolen on the way.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { claimsOf, granted, looksLikeSession, methodsOf, refused, sessionMissing } from './auth-objects.ts'
import { member, signIn } from './auth-people.ts'
import { remaining } from './auth-sessions.ts'
import { inMemory } from './auth-shapes.ts'
import type { AuthProject, Stage } from './auth-stage.ts'
import { listening } from './auth-watching.ts'

/** A refresh by a client that knows nothing but this token. */
const refresh = (project: AuthProject, refresh_token: string) =>
  project.connect().refreshSession({ refresh_token })

export function refreshTests(stage: () => Stage): void {
  describe('refreshSession', () => {
    test('answers the same session with new tokens', async () => {
      const { open } = stage()
      const { auth, session, user } = await member(open)
      const { session: next, user: same } = granted(await auth.refreshSession())
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

    test('shows what has changed of the user since', async () => {
      const { open } = stage()
      const { auth, user } = await member(open)
      granted(await open.admin.updateUserById(user.id, { app_metadata: { plan: 'gold' } }))
      const { session } = granted(await auth.refreshSession())
      assert.equal(session?.user.app_metadata['plan'], 'gold')
      assert.equal(claimsOf(session!).app_metadata['plan'], 'gold')
    })

    test('without a session, or with a token nobody has, there is none', async () => {
      const { open } = stage()
      sessionMissing(await open.connect().refreshSession())
      refused(await refresh(open, 'nosuchtoken1'), 400, 'refresh_token_not_found')
      const missing = await open.call('POST', '/token?grant_type=refresh_token', { body: {} })
      assert.deepEqual([missing.status, typeof missing.body.error_description], [400, 'string'])
    })

    test('the token before the active one answers the active one: the first answer was lost', async () => {
      const strict = await stage().project({ refresh_token_reuse_interval_seconds: 0 })
      const { session } = await member(strict)
      const first = granted(await refresh(strict, session.refresh_token)).session!
      const again = granted(await refresh(strict, session.refresh_token)).session!
      assert.equal(again.refresh_token, first.refresh_token)
      looksLikeSession(again)
      assert.equal(claimsOf(again).session_id, claimsOf(session).session_id)
      granted(await refresh(strict, first.refresh_token))
    })

    test('an older one used again soon answers the active one', async () => {
      const patient = await stage().project({ refresh_token_reuse_interval_seconds: 300 })
      const { session } = await member(patient)
      const first = granted(await refresh(patient, session.refresh_token)).session!
      const second = granted(await refresh(patient, first.refresh_token)).session!
      const again = granted(await refresh(patient, session.refresh_token)).session!
      assert.equal(again.refresh_token, second.refresh_token)
    })

    test('an older one used again late ends the session for everybody', async () => {
      const strict = await stage().project({ refresh_token_reuse_interval_seconds: 0 })
      const { session, email } = await member(strict)
      const bystander = await signIn(strict, email)
      const first = granted(await refresh(strict, session.refresh_token)).session!
      const second = granted(await refresh(strict, first.refresh_token)).session!
      refused(await refresh(strict, session.refresh_token), 400, 'refresh_token_already_used')
      const { data, error } = await refresh(strict, second.refresh_token)
      assert.deepEqual([error?.status, data.session], [400, null])
      sessionMissing(await strict.connect().getUser(second.access_token))
      granted(await bystander.auth.refreshSession())
    })

    test('many refreshes at once end in one token of one session', async () => {
      const { open } = stage()
      const { session } = await member(open)
      const answers = await Promise.all(Array.from({ length: 8 }, () => refresh(open, session.refresh_token)))
      const sessions = answers.map(answer => granted(answer).session!)
      assert.equal(new Set(sessions.map(({ refresh_token }) => refresh_token)).size, 1)
      assert.deepEqual(
        [...new Set(sessions.map(each => claimsOf(each).session_id))],
        [claimsOf(session).session_id],
      )
      granted(await refresh(open, sessions[0]!.refresh_token))
    })

    test('a session nobody has refreshed for long has expired', async () => {
      const resting = await stage().project()
      const { session } = await member(resting)
      await resting.letSessionsRest()
      refused(await refresh(resting, session.refresh_token), 400, 'session_expired')
    })

    test('a token is good for its own project only', async () => {
      const { open, careful } = stage()
      const { session } = await member(open)
      refused(await refresh(careful, session.refresh_token), 400, 'refresh_token_not_found')
      granted(await refresh(open, session.refresh_token))
    })

    test('a banned user is refused', async () => {
      const { open } = stage()
      const { auth, user } = await member(open)
      granted(await open.admin.updateUserById(user.id, { ban_duration: '1h' }))
      refused(await auth.refreshSession(), 400, 'user_banned')
    })

    test('a client whose token has expired and cannot be refreshed signs out', async () => {
      const { open } = stage()
      const storage = inMemory()
      const { auth, user } = await member(open, { storage })
      granted(await open.admin.deleteUser(user.id))
      remaining(storage, -10)
      const { data, error } = await auth.getSession()
      assert.equal(data.session, null)
      assert.equal(error?.status, 400)
      assert.equal(storage.values.size, 0)
    })
  })

  describe('startAutoRefresh', () => {
    test('refreshes a session that is about to end, until it is stopped', async () => {
      const { open } = stage()
      const storage = inMemory()
      const { auth, session } = await member(open, { storage })
      const watch = await listening(auth)
      remaining(storage, 30)
      await auth.startAutoRefresh()
      await watch.heard('TOKEN_REFRESHED')
      const { data } = await auth.getSession()
      assert.notEqual(data.session?.refresh_token, session.refresh_token)
      await auth.stopAutoRefresh()
      granted(await auth.getUser())
    })
  })
}
