// onAuthStateChange: the events that a page gets, in order.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Session } from '@supabase/supabase-js'
import { dataOf } from './auth-objects.ts'
import type { Setup } from './auth-setup.ts'
import { type Auth, inMemory } from './auth-shapes.ts'
import { newUser, password } from './auth-users.ts'

export interface Watch {
  events: string[]
  sessions: (Session | null)[]
  /** Resolves after this event. */
  received(event: string): Promise<void>
  unsubscribe(): void
}

/** Subscribes and waits for the initial session. */
export async function listening(auth: Auth): Promise<Watch> {
  const events: string[] = []
  const sessions: (Session | null)[] = []
  const waiting = new Map<string, () => void>()
  const { data } = auth.onAuthStateChange((event, session) => {
    events.push(event)
    sessions.push(session)
    waiting.get(event)?.()
  })
  const received = (event: string) =>
    events.includes(event)
      ? Promise.resolve()
      : new Promise<void>(resolve => void waiting.set(event, resolve))
  await received('INITIAL_SESSION')
  return { events, sessions, received, unsubscribe: () => data.subscription.unsubscribe() }
}

export function stateChangeTests(setup: () => Setup): void {
  describe('onAuthStateChange', () => {
    test('emits events for sign-in, refresh, user update and sign-out', async () => {
      const { open } = setup()
      const { email } = await newUser(open)
      const auth = open.connect()
      const watch = await listening(auth)
      dataOf(await auth.signInWithPassword({ email, password }))
      dataOf(await auth.refreshSession())
      dataOf(await auth.updateUser({ data: { recordCalls: true } }))
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
      assert.equal(updated?.user.user_metadata['recordCalls'], true)
    })

    test('emits the existing session to a page opened later', async () => {
      const { open } = setup()
      const storage = inMemory()
      const { session } = await newUser(open, { storage })
      const { events, sessions } = await listening(open.connect({ storage }))
      assert.equal(events.at(-1), 'INITIAL_SESSION')
      assert.deepEqual(sessions.at(-1), session)
    })

    test('emits SIGNED_OUT for a session ended elsewhere', async () => {
      const { open } = setup()
      const { auth, user } = await newUser(open)
      const watch = await listening(auth)
      dataOf(await open.admin.updateUserById(user.id, { password: 'set by an administrator' }))
      await auth.getUser()
      assert.deepEqual(watch.events, ['INITIAL_SESSION', 'SIGNED_OUT'])
    })

    test('emits nothing for refused calls, nor after unsubscribing or disposing', async () => {
      const { open } = setup()
      const { auth, email } = await newUser(open)
      const watch = await listening(auth)
      const other = await listening(auth)
      await auth.signInWithPassword({ email, password: 'wrong password' })
      assert.deepEqual(watch.events, ['INITIAL_SESSION'])
      watch.unsubscribe()
      dataOf(await auth.refreshSession())
      assert.deepEqual(watch.events, ['INITIAL_SESSION'])
      assert.deepEqual(other.events, ['INITIAL_SESSION', 'TOKEN_REFRESHED'])
      await auth.dispose()
      dataOf(await auth.refreshSession())
      assert.deepEqual(other.events, ['INITIAL_SESSION', 'TOKEN_REFRESHED'])
    })
  })
}
