// admin: users made, listed and read with the service_role key.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { hash } from '@node-rs/bcrypt'
import { claimsOf, granted, looksLikeUser, refused } from './auth-objects.ts'
import { canSignIn, member, password, signIn, someone } from './auth-people.ts'
import type { Stage } from './auth-stage.ts'

const anyId = '11111111-1111-4111-8111-111111111111'

export function adminTests(stage: () => Stage): void {
  describe('the administration', () => {
    test('is closed to the anon key and to users, even to change themselves', async () => {
      const { open } = stage()
      const { auth, user, session } = await member(open)
      for (const token of [open.anonKey, session.access_token]) {
        for (const [method, path, body] of [
          ['GET', '/admin/users', undefined],
          ['POST', '/admin/users', { email: someone() }],
          ['GET', `/admin/users/${user.id}`, undefined],
          ['PUT', `/admin/users/${user.id}`, { app_metadata: { plan: 'gold' } }],
          ['DELETE', `/admin/users/${user.id}`, {}],
          ['POST', '/invite', { email: someone() }],
          ['POST', '/admin/generate_link', { type: 'magiclink', email: someone() }],
        ] as const) {
          const answer = await open.call(method, path, { token, body })
          const found = `${answer.status} ${answer.body.error_code}`
          assert.ok(['403 not_admin', '401 no_authorization'].includes(found), `${method} ${path}: ${found}`)
        }
      }
      assert.equal('plan' in granted(await auth.getUser()).user.app_metadata, false)
      const listed = await auth.admin.listUsers()
      assert.ok(listed.error?.status === 401 || listed.error?.status === 403)
      assert.deepEqual(listed.data.users, [])
    })
  })

  describe('admin.createUser', () => {
    test('makes a user as told, who can sign in at once', async () => {
      const { careful } = stage()
      const [id, email] = [randomUUID(), someone('Mixed.Case')]
      const { user } = granted(
        await careful.admin.createUser({
          id,
          email,
          password,
          email_confirm: true,
          user_metadata: { name: 'Ada' },
          app_metadata: { plan: 'gold' },
        }),
      )
      looksLikeUser(user)
      assert.partialDeepStrictEqual(user, {
        id,
        email: email.toLowerCase(),
        role: 'authenticated',
        is_anonymous: false,
      })
      assert.deepEqual(user.app_metadata, { plan: 'gold', provider: 'email', providers: ['email'] })
      assert.deepEqual(user.user_metadata, { name: 'Ada', email_verified: true })
      assert.ok(user.email_confirmed_at)
      assert.equal('last_sign_in_at' in user, false)
      assert.deepEqual(
        user.identities?.map(each => [each.provider, each.id]),
        [['email', id]],
      )
      const { session } = await signIn(careful, email)
      assert.equal(claimsOf(session).app_metadata['plan'], 'gold')
    })

    test('leaves the address unproven unless told otherwise, and sends nothing', async () => {
      const { careful, mailbox } = stage()
      const email = someone()
      const { user } = granted(await careful.admin.createUser({ email, password }))
      looksLikeUser(user)
      assert.equal('email_confirmed_at' in user, false)
      assert.equal('confirmation_sent_at' in user, false)
      const early = await careful.connect().signInWithPassword({ email, password })
      refused(early, 400, 'email_not_confirmed')
      const later = someone()
      granted(await careful.connect().signUp({ email: later, password }))
      await mailbox.nextCode(later)
      assert.deepEqual(mailbox.waiting(email), [])
    })

    test('takes a bcrypt hash for a password', async () => {
      const { open } = stage()
      const email = someone()
      const password_hash = await hash(password, 10)
      granted(await open.admin.createUser({ email, password_hash, email_confirm: true }))
      assert.deepEqual(
        [await canSignIn(open, email, password), await canSignIn(open, email, password_hash)],
        [true, false],
      )
      const odd = await open.admin.createUser({ email: someone(), password_hash: 'not a hash' })
      assert.equal(odd.error?.status, 400)
    })

    test('can make somebody without a password, or banned from the start', async () => {
      const { open } = stage()
      const email = someone()
      granted(await open.admin.createUser({ email, email_confirm: true }))
      for (const given of ['', 'undefined', 'null']) assert.equal(await canSignIn(open, email, given), false)
      const banned = someone()
      const { user } = granted(
        await open.admin.createUser({ email: banned, password, email_confirm: true, ban_duration: '1h' }),
      )
      assert.ok('banned_until' in user)
      refused(await open.connect().signInWithPassword({ email: banned, password }), 400, 'user_banned')
    })

    test('refuses what is taken or cannot be', async () => {
      const { open } = stage()
      const { email, user } = await member(open)
      refused(await open.admin.createUser({ email, password }), 422, 'email_exists')
      refused(await open.admin.createUser({ email: email.toUpperCase() }), 422, 'email_exists')
      const nameless = await open.admin.createUser({ password })
      assert.deepEqual([nameless.error?.status, nameless.data.user], [400, null])
      const twin = await open.admin.createUser({ id: user.id, email: someone() })
      assert.ok(twin.error && twin.error.status! >= 400 && twin.error.status! < 500, `${twin.error?.status}`)
      const odd = await open.admin.createUser({ id: 'not-an-id', email: someone() })
      assert.equal(odd.error?.status, 400)
      refused(await open.admin.createUser({ email: 'ada' }), 400, 'validation_failed')
      const ban = await open.admin.createUser({ email: someone(), ban_duration: 'a while' })
      refused(ban, 400, 'validation_failed')
      refused(await open.admin.createUser({ email: someone(), password: '12345' }), 422, 'weak_password')
    })
  })

  describe('admin.listUsers', () => {
    test('pages through everybody, newest first, and counts them', async () => {
      const small = await stage().project()
      const ids: string[] = []
      for (let n = 0; n < 5; n++)
        ids.unshift(granted(await small.admin.createUser({ email: someone(`user-${n}`) })).user.id)
      const page = async (params?: { page?: number; perPage?: number }) => {
        const data = granted(await small.admin.listUsers(params))
        return { ...data, ids: data.users.map(user => user.id) }
      }
      const all = await page()
      assert.deepEqual([all.ids, all.total, all.aud], [ids, 5, 'authenticated'])
      for (const user of all.users) looksLikeUser(user)
      const first = await page({ page: 1, perPage: 2 })
      assert.deepEqual([first.ids, first.total, first.nextPage, first.lastPage], [ids.slice(0, 2), 5, 2, 3])
      const last = await page({ page: 3, perPage: 2 })
      assert.deepEqual([last.ids, last.total, last.nextPage], [ids.slice(4), 5, null])
      assert.deepEqual((await page({ page: 4, perPage: 2 })).ids, [])
    })

    test('finds by part of an address or a name, in the order asked for', async () => {
      const small = await stage().project()
      const make = async (email: string, full_name: string) =>
        granted(await small.admin.createUser({ email, user_metadata: { full_name } })).user.id
      const grace = await make('grace@example.com', 'Grace Hopper')
      const ada = await make('ada@example.com', 'Ada Lovelace')
      const search = async (query: string) => {
        const { body } = await small.call('GET', `/admin/users?${query}`, { token: small.serviceRoleKey })
        return body.users.map((user: { id: string }) => user.id)
      }
      assert.deepEqual(await search('filter=ADA@'), [ada])
      assert.deepEqual(await search('filter=hopper'), [grace])
      assert.deepEqual(await search('filter=%25'), [], 'a percent sign stands for itself')
      assert.deepEqual(await search('filter=example.com&sort=created_at%20asc'), [grace, ada])
      assert.deepEqual(await search('filter=example.com&sort=created_at%20desc'), [ada, grace])
    })

    test('says where the next and the last page are', async () => {
      const { open } = stage()
      for (let n = 0; n < 2; n++) await member(open)
      const { headers } = await open.call('GET', '/admin/users?page=1&per_page=1', {
        token: open.serviceRoleKey,
      })
      const total = Number(headers.get('x-total-count'))
      assert.ok(total >= 2)
      const links = headers.get('link')!.split(',')
      assert.match(links[0]!, /^<[^?]+\?page=2&per_page=1>; rel="next"$/)
      assert.match(links[1]!.trim(), new RegExp(`^<[^?]+\\?page=${total}&per_page=1>; rel="last"$`))
    })
  })

  describe('admin.getUserById', () => {
    test('answers the user, or that there is none', async () => {
      const { open } = stage()
      const { auth, user } = await member(open)
      const { user: found } = granted(await open.admin.getUserById(user.id))
      looksLikeUser(found)
      assert.deepEqual(found, granted(await auth.getUser()).user)
      refused(await open.admin.getUserById(anyId), 404, 'user_not_found')
      const odd = await open.call('GET', '/admin/users/..%2Fusers', { token: open.serviceRoleKey })
      assert.ok(odd.status === 400 || odd.status === 404, `${odd.status}`)
    })
  })
}
