// Issue and 2 §6: auth events are written to an outbox in the project, in the same transaction as the change.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type AuthApi, authProject, challengeOf, password, pkce, someone, succeeded } from '../auth.ts'
import { type Target, target } from '../target.ts'

let it: Target
let auth: AuthApi
let confirming: AuthApi
before(async () => {
  it = await target()
  auth = await authProject(it)
  confirming = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

const created = 'user.created'
const updated = 'user.updated'
const deleted = 'user.deleted'
const signedIn = 'user.signed_in'
const signedOut = 'user.signed_out'

const eventsOf = (id: string, api = auth) =>
  api.sql(`select * from auth.events where user_id = '${id}' order by created_at, id`)
const typesOf = async (id: string, api = auth): Promise<string[]> =>
  (await eventsOf(id, api)).map(({ type }) => type)
const total = async (api = auth): Promise<number> =>
  Number((await api.sql('select count(*) as n from auth.events'))[0].n)

/** The types of the events that an action adds for a user. */
async function added(id: string, act: () => Promise<unknown>, api = auth): Promise<string[]> {
  const before = await typesOf(id, api)
  await act()
  const after = await typesOf(id, api)
  assert.deepEqual(after.slice(0, before.length), before)
  return after.slice(before.length)
}

test('2 §6: an event has an id, a type, a time and the user', async () => {
  const me = await auth.signUp()
  const events = await eventsOf(me.id)
  assert.equal(events.length, 2)
  for (const event of events) {
    assert.match(event.id, /^evt_\w{16,}$/)
    assert.deepEqual([event.user_id, event.email], [me.id, me.email])
    assert.ok(Math.abs(Date.parse(event.created_at) - Date.now()) < 120_000)
    assert.ok(!JSON.stringify(event).includes(password))
  }
  assert.equal(new Set(events.map(({ id }) => id)).size, 2)
})

test('2 §6: a sign-up with a session emits user.created and user.signed_in', async () => {
  assert.deepEqual(await typesOf((await auth.signUp()).id), [created, signedIn])
  const anonymous = succeeded(await auth.post('/signup', { data: {} }))
  assert.deepEqual(await typesOf(anonymous.user.id), [created, signedIn])
})

test('2 §6: an unconfirmed sign-up emits user.created, its verification user.signed_in', async () => {
  const email = someone()
  const { id } = succeeded(await confirming.post('/signup', { email, password }))
  assert.deepEqual(await typesOf(id, confirming), [created])
  const { code } = await confirming.mailTo(email, 'verify_email')
  const verified = await added(
    id,
    async () => succeeded(await confirming.post('/verify', { type: 'signup', email, token: code })),
    confirming,
  )
  assert.deepEqual(
    verified.filter(type => type !== updated),
    [signedIn],
  )
  assert.ok(verified.length <= 2, JSON.stringify(verified))
})

test('2 §6: every sign-in method emits one event', async () => {
  const me = await auth.signUp()
  assert.deepEqual(await added(me.id, () => auth.signIn(me)), [signedIn])
  const native = async () => succeeded(await auth.post('/sign-in', { email: me.email, password }))
  assert.deepEqual(await added(me.id, native), [signedIn])

  const { email, id } = me
  assert.deepEqual(await added(id, async () => succeeded(await auth.post('/otp', { email }))), [])
  const first = await auth.mailTo(email, 'magic_link')
  const byCode = async () =>
    succeeded(await auth.post('/verify', { type: 'email', email, token: first.code }))
  assert.deepEqual(await added(id, byCode), [signedIn])

  succeeded(await auth.post('/otp', { email }))
  const second = await auth.mailTo(email, 'magic_link', first)
  assert.deepEqual(await added(id, () => auth.follow(second.link, 'HEAD')), [])
  assert.deepEqual(await added(id, () => auth.follow(second.link)), [signedIn])
  assert.deepEqual(await added(id, () => auth.follow(second.link)), [])

  const flow = pkce()
  succeeded(await auth.post('/otp', { email, ...challengeOf(flow) }))
  const third = await auth.mailTo(email, 'magic_link', second)
  const exchanged = await added(id, async () => {
    const { code } = (await auth.follow(third.link)).query
    const fields = { auth_code: code, code_verifier: flow.verifier }
    succeeded(await auth.post('/token?grant_type=pkce', fields))
  })
  assert.deepEqual(exchanged, [signedIn])
})

test('2 §6: refreshing and reading emit no event', async () => {
  const me = await auth.signUp()
  const quiet = async () => {
    succeeded(await auth.post('/token?grant_type=refresh_token', { refresh_token: me.refreshToken }))
    succeeded(await auth.get('/user', { token: me.token }))
    succeeded(await auth.get('/session', { token: me.token }))
    succeeded(await auth.admin('GET', `/admin/users/${me.id}`))
    succeeded(await auth.admin('GET', '/admin/users'))
    succeeded(await auth.post('/recover', { email: me.email }))
    succeeded(await auth.post('/resend', { email: me.email, type: 'signup' }))
  }
  assert.deepEqual(await added(me.id, quiet), [])
})

test('2 §6: a sign-out emits one event for any scope', async () => {
  for (const query of ['', '?scope=local', '?scope=global']) {
    const me = await auth.signUp()
    await auth.signIn(me)
    const act = async () =>
      assert.equal((await auth.post(`/logout${query}`, undefined, { token: me.token })).status, 204)
    assert.deepEqual(await added(me.id, act), [signedOut], query)
  }
})

test('2 §6: a change by the user or an administrator emits user.updated', async () => {
  const me = await auth.signUp()
  const put = (body: unknown) => async () => succeeded(await auth.put('/user', body, { token: me.token }))
  assert.deepEqual(await added(me.id, put({ data: { a: 1 } })), [updated])
  assert.deepEqual(await added(me.id, put({ password: 'another password' })), [updated])
  const admin = (body: unknown) => async () =>
    succeeded(await auth.admin('PUT', `/admin/users/${me.id}`, body))
  assert.deepEqual(await added(me.id, admin({ app_metadata: { b: 2 } })), [updated])
  assert.deepEqual(await added(me.id, admin({ ban_duration: '1h' })), [updated])
})

test('2 §6: an email change emits user.updated with the new address', async () => {
  const me = await auth.signUp()
  const email = someone('new')
  succeeded(await auth.put('/user', { email }, { token: me.token }))
  await auth.follow((await auth.mailTo(me.email, 'verify_email')).link)
  const types = await added(me.id, async () => auth.follow((await auth.mailTo(email, 'verify_email')).link))
  assert.ok(types.includes(updated), JSON.stringify(types))
  const events = await eventsOf(me.id)
  assert.equal(events.findLast(({ type }) => type === updated).email, email)
})

test('2 §6: creating, inviting and deleting a user by an administrator emit events', async () => {
  const user = await auth.createUser()
  assert.deepEqual(await typesOf(user.id), [created])
  const guest = succeeded(await auth.admin('POST', '/invite', { email: someone() }))
  assert.deepEqual(await typesOf(guest.id), [created])
  const link = succeeded(
    await auth.admin('POST', '/admin/generate_link', { type: 'magiclink', email: someone() }),
  )
  assert.deepEqual(await typesOf(link.id), [created])
  for (const should_soft_delete of [false, true]) {
    const { id, email } = await auth.createUser()
    const remove = async () =>
      succeeded(await auth.admin('DELETE', `/admin/users/${id}`, { should_soft_delete }))
    assert.deepEqual(await added(id, remove), [deleted])
    assert.equal((await eventsOf(id)).at(-1)?.email, email)
  }
})

test('2 §6: a one-time code for a new address emits user.created when it is requested', async () => {
  const email = someone()
  succeeded(await auth.post('/otp', { email }))
  const [{ id }] = await auth.sql(`select id from auth.users where email = '${email}'`)
  assert.deepEqual(await typesOf(id), [created])
})

test('issue: refused requests emit no event', async () => {
  const me = await auth.signUp()
  const { email, id, token } = me
  const { email: taken } = await auth.createUser()
  const service = { as: 'service_role' } as const
  const before = await total()
  for (const [method, path, options] of [
    ['POST', '/signup', { body: { email, password } }],
    ['POST', '/signup', { body: { email: someone(), password: '12345' } }],
    ['POST', '/signup', { body: { email: 'nonsense', password } }],
    ['POST', '/token?grant_type=password', { body: { email, password: 'wrong password' } }],
    ['POST', '/token?grant_type=password', { body: { email: someone(), password } }],
    ['POST', '/sign-in', { body: { email, password: 'wrong password' } }],
    ['POST', '/verify', { body: { type: 'email', email, token: '000000' } }],
    ['POST', '/token?grant_type=pkce', { body: { auth_code: id, code_verifier: 'x'.repeat(50) } }],
    ['POST', '/token?grant_type=refresh_token', { body: { refresh_token: 'nonsense' } }],
    ['PUT', '/user', { token, body: { password } }],
    ['PUT', '/user', { token, body: { email: taken } }],
    ['PUT', '/user', { token, body: { app_metadata: {} } }],
    ['POST', '/logout?scope=nosuch', { token }],
    ['POST', '/logout', {}],
    ['POST', '/admin/users', { ...service, body: { email } }],
    ['PUT', `/admin/users/${id}`, { ...service, body: { email: taken } }],
    ['PUT', `/admin/users/${id}`, { body: { app_metadata: {} } }],
    ['DELETE', `/admin/users/${id}`, {}],
    ['POST', '/invite', { ...service, body: { email } }],
  ] as const) {
    const { status, text } = await auth.ask(method, path, options)
    assert.ok(status >= 400 && status < 500, `${path}: ${status} ${text}`)
    assert.equal(await total(), before, `${method} ${path}`)
  }
})

test('issue: a transaction that fails at commit leaves neither user nor event', async () => {
  const picky = await authProject(it)
  const me = await picky.signUp()
  await picky.sql(`
    create function public.refuse() returns trigger language plpgsql as
      $$ begin raise exception 'not here'; end $$;
    create constraint trigger refuse after insert or update on auth.users
      deferrable initially deferred for each row execute function public.refuse()`)
  const before = await total(picky)
  const email = someone()
  for (const act of [
    () => picky.post('/signup', { email, password }),
    () => picky.put('/user', { data: { a: 1 } }, { token: me.token }),
    () => picky.admin('POST', '/admin/users', { email }),
  ]) {
    const { status, text } = await act()
    assert.ok(status >= 400, `${status} ${text}`)
  }
  assert.equal(await total(picky), before)
  assert.deepEqual(await picky.sql(`select 1 from auth.users where email = '${email}'`), [])
  assert.deepEqual(await picky.kindsTo(email).catch(() => []), [])
})

test('1 §1 callers cannot read the outbox', async () => {
  const me = await auth.signUp()
  for (const path of ['events', 'users'])
    for (const profile of [{}, { 'accept-profile': 'auth' }] as Record<string, string>[]) {
      const reply = await it.call('GET', `/v1/rest/${auth.project.id}/${path}`, {
        apikey: auth.project.anon_key,
        token: me.token,
        headers: profile,
      })
      assert.ok(reply.status >= 400 && reply.status < 500, `${path}: ${reply.status}`)
    }
})
