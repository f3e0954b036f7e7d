// admin: create, list and read users with the service_role key.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { describe, test } from 'node:test'
import { hash } from '@node-rs/bcrypt'
import { claimsOf, dataOf, looksLikeUser, refused } from './auth-objects.ts'
import type { Setup } from './auth-setup.ts'
import { canSignIn, newAddress, newUser, password, signIn } from './auth-users.ts'

const anyId = '11111111-1111-4111-8111-111111111111'

export function adminTests(setup: () => Setup): void {
  describe('admin API', () => {
    test('refuses the anon key and user tokens', async () => {
      const { open } = setup()
      const { auth, user, session } = await newUser(open)
      for (const token of [open.anonKey, session.access_token]) {
        for (const [method, path, body] of [
          ['GET', '/admin/users', undefined],
          ['POST', '/admin/users', { email: newAddress() }],
          ['GET', `/admin/users/${user.id}`, undefined],
          ['PUT', `/admin/users/${user.id}`, { app_metadata: { plan: 'gold' } }],
          ['DELETE', `/admin/users/${user.id}`, {}],
          ['POST', '/invite', { email: newAddress() }],
          ['POST', '/admin/generate_link', { type: 'magiclink', email: newAddress() }],
        ] as const) {
          const answer = await open.call(method, path, { token, body })
          const found = `${answer.status} ${answer.body.error_code}`
          assert.ok(['403 not_admin', '401 no_authorization'].includes(found), `${method} ${path}: ${found}`)
        }
      }
      assert.equal('plan' in dataOf(await auth.getUser()).user.app_metadata, false)
      const listed = await auth.admin.listUsers()
      assert.ok(listed.error?.status === 401 || listed.error?.status === 403)
      assert.deepEqual(listed.data.users, [])
    })
  })

  describe('admin.createUser', () => {
    test('creates a user with the given fields who can sign in', async () => {
      const { confirming } = setup()
      const [id, email] = [randomUUID(), newAddress('Mixed.Case')]
      const { user } = dataOf(
        await confirming.admin.createUser({
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
      const { session } = await signIn(confirming, email)
      assert.equal(claimsOf(session).app_metadata['plan'], 'gold')
    })

    test('leaves the address unconfirmed by default and sends no mail', async () => {
      const { confirming, mailbox } = setup()
      const email = newAddress()
      const { user } = dataOf(await confirming.admin.createUser({ email, password }))
      looksLikeUser(user)
      assert.equal('email_confirmed_at' in user, false)
      assert.equal('confirmation_sent_at' in user, false)
      const early = await confirming.connect().signInWithPassword({ email, password })
      refused(early, 400, 'email_not_confirmed')
      const later = newAddress()
      dataOf(await confirming.connect().signUp({ email: later, password }))
      await mailbox.nextCode(later)
      assert.deepEqual(mailbox.waiting(email), [])
    })

    test('accepts a bcrypt hash as password', async () => {
      const { open } = setup()
      const email = newAddress()
      const password_hash = await hash(password, 10)
      dataOf(await open.admin.createUser({ email, password_hash, email_confirm: true }))
      assert.deepEqual(
        [await canSignIn(open, email, password), await canSignIn(open, email, password_hash)],
        [true, false],
      )
      const odd = await open.admin.createUser({ email: newAddress(), password_hash: 'not a hash' })
      assert.equal(odd.error?.status, 400)
    })

    test('creates users without a password, and banned users', async () => {
      const { open } = setup()
      const email = newAddress()
      dataOf(await open.admin.createUser({ email, email_confirm: true }))
      for (const given of ['', 'undefined', 'null']) assert.equal(await canSignIn(open, email, given), false)
      const banned = newAddress()
      const { user } = dataOf(
        await open.admin.createUser({ email: banned, password, email_confirm: true, ban_duration: '1h' }),
      )
      assert.ok('banned_until' in user)
      refused(await open.connect().signInWithPassword({ email: banned, password }), 400, 'user_banned')
    })

    test('rejects taken and invalid values', async () => {
      const { open } = setup()
      const { email, user } = await newUser(open)
      refused(await open.admin.createUser({ email, password }), 422, 'email_exists')
      refused(await open.admin.createUser({ email: email.toUpperCase() }), 422, 'email_exists')
      const nameless = await open.admin.createUser({ password })
      assert.deepEqual([nameless.error?.status, nameless.data.user], [400, null])
      const twin = await open.admin.createUser({ id: user.id, email: newAddress() })
      assert.ok(twin.error && twin.error.status! >= 400 && twin.error.status! < 500, `${twin.error?.status}`)
      const odd = await open.admin.createUser({ id: 'not-an-id', email: newAddress() })
      assert.equal(odd.error?.status, 400)
      refused(await open.admin.createUser({ email: 'ada' }), 400, 'validation_failed')
      const ban = await open.admin.createUser({ email: newAddress(), ban_duration: 'a while' })
      refused(ban, 400, 'validation_failed')
      refused(await open.admin.createUser({ email: newAddress(), password: '12345' }), 422, 'weak_password')
    })
  })

  describe('admin.listUsers', () => {
    test('lists all users in pages, newest first, with the total', async () => {
      const small = await setup().project()
      const ids: string[] = []
      for (let n = 0; n < 5; n++)
        ids.unshift(dataOf(await small.admin.createUser({ email: newAddress(`user-${n}`) })).user.id)
      const page = async (params?: { page?: number; perPage?: number }) => {
        const data = dataOf(await small.admin.listUsers(params))
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

    test('filters by part of an address or name and sorts', async () => {
      const small = await setup().project()
      const make = async (email: string, full_name: string) =>
        dataOf(await small.admin.createUser({ email, user_metadata: { full_name } })).user.id
      const grace = await make('grace@example.com', 'Grace Hopper')
      const ada = await make('ada@example.com', 'Ada Lovelace')
      const search = async (query: string) => {
        const { body } = await small.call('GET', `/admin/users?${query}`, { token: small.serviceRoleKey })
        return body.users.map((user: { id: string }) => user.id)
      }
      assert.deepEqual(await search('filter=ADA@'), [ada])
      assert.deepEqual(await search('filter=hopper'), [grace])
      assert.deepEqual(await search('filter=%25'), [], 'a percent sign is no wildcard')
      assert.deepEqual(await search('filter=example.com&sort=created_at%20asc'), [grace, ada])
      assert.deepEqual(await search('filter=example.com&sort=created_at%20desc'), [ada, grace])
    })

    test('returns the next and the last page', async () => {
      const { open } = setup()
      for (let n = 0; n < 2; n++) await newUser(open)
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
    test('returns the user, or an error for an unknown id', async () => {
      const { open } = setup()
      const { auth, user } = await newUser(open)
      const { user: found } = dataOf(await open.admin.getUserById(user.id))
      looksLikeUser(found)
      assert.deepEqual(found, dataOf(await auth.getUser()).user)
      refused(await open.admin.getUserById(anyId), 404, 'user_not_found')
      const odd = await open.call('GET', '/admin/users/..%2Fusers', { token: open.serviceRoleKey })
      assert.ok(odd.status === 400 || odd.status === 404, `${odd.status}`)
    })
  })
}
