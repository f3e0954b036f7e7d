// onAuthStateChange: what a page that listens is told, in order.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Session } from '@supabase/supabase-js'
import { granted } from './auth-objects.ts'
import { member, password } from './auth-people.ts'
import { type Auth, inMemory } from './auth-shapes.ts'
import type { Stage } from './auth-stage.ts'

export interface Watch {
  events: string[]
  sessions: (Session | null)[]
  /** Once this has been told. */
  heard(event: string): Promise<void>
  unsubscribe(): void
}

/** Listens, and has been told of the session there is. */
export async function listening(auth: Auth): Promise<Watch> {
  const events: string[] = []
  const sessions: (Session | null)[] = []
  const waiting = new Map<string, () => void>()
  const { data } = auth.onAuthStateChange((event, session) => {
    events.push(event)
    sessions.push(session)
    waiting.get(event)?.()
  })
  const heard = (event: string) =>
    events.includes(event)
      ? Promise.resolve()
      : new Promise<void>(resolve => void waiting.set(event, resolve))
  await heard('INITIAL_SESSION')
  return { events, sessions, heard, unsubscribe: () => data.subscription.unsubscribe() }
}

export function watchTests(stage: () => Stage): void {
  describe('onAuthStateChange', () => {
    test('tells of signing in, refreshing, changing and signing out', async () => {
      const { open } = stage()
      const { email } = await member(open)
      const auth = open.connect()
      const watch = await listening(auth)
      granted(await auth.signInWithPassword({ email, password }))
      granted(await auth.refreshSession())
      granted(await auth.updateUser({ data: { watched: true } }))
      assert.equal((await auth.signOut()).error, null)
      assert.deepEqual(watch.events, [
        'INITIAL_SESSION',
        'SIGNED_IN',
        'TOKEN_REFRESHED',
        'USER_UPDATED',
        'SIGNED_OUT',
      ])
      const [none, first, refreshed, updated, gone] = watch.sessions
      assert.deepEqual([none, gone], [null, null])
      assert.notEqual(first?.refresh_token, refreshed?.refresh_token)
      assert.equal(updated?.user.user_metadata['watched'], true)
    })

    test('tells a page opened later of the session there is', async () => {
      const { open } = stage()
      const storage = inMemory()
      const { session } = await member(open, { storage })
      const { events, sessions } = await listening(open.connect({ storage }))
      assert.equal(events.at(-1), 'INITIAL_SESSION')
      assert.deepEqual(sessions.at(-1), session)
    })

    test('tells of a session that was ended elsewhere', async () => {
      const { open } = stage()
      const { auth, user } = await member(open)
      const watch = await listening(auth)
      granted(await open.admin.updateUserById(user.id, { password: 'set by an administrator' }))
      await auth.getUser()
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'SIGNED_OUT'])
    })

    test('tells nothing of what was refused, nor after unsubscribing or disposing', async () => {
      const { open } = stage()
      const { auth, email } = await member(open)
      const watch = await listening(auth)
      const other = await listening(auth)
      await auth.signInWithPassword({ email, password: 'wrong password' })
      assert.deepEqual(watch.events, ['INITIAL_SESSION'])
      watch.unsubscribe()
      granted(await auth.refreshSession())
      assert.deepEqual(watch.events, ['INITIAL_SESSION'])
      assert.deepEqual(other.events, ['INITIAL_SESSION', 'TOKEN_REFRESHED'])
      await auth.dispose()
      granted(await auth.refreshSession())
      assert.deepEqual(other.events, ['INITIAL_SESSION', 'TOKEN_REFRESHED'])
    })
  })
}
