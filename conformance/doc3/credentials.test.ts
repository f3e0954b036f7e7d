// 3 §5 and §4 "Platform identity": the admin token and platform tokens.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  auditOf,
  createUser,
  listAll,
  mintToken,
  nowSeconds,
  sessionOf,
  sleep,
  someId,
  unique,
  uuid,
} from '../people.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const readProjects = (headers: Record<string, string>) => it.call('GET', '/api/v1/projects', { headers })
const works = async (token: string) => (await readProjects({ authorization: `Bearer ${token}` })).status
const metadata = ['created_at', 'expires_at', 'id', 'last_used_at', 'name', 'revoked_at', 'scope']

test('3 §5 the admin token may do everything', async () => {
  assert.equal(await works(it.adminToken), 200)
  assert.equal((await it.manage('GET', '/admin/stats')).status, 200)
  assert.equal((await it.manage('GET', '/platform/tokens')).status, 200)
})

test('3 §5 only the literal admin token passes, and only as Authorization: Bearer', async () => {
  const token = it.adminToken
  for (const wrong of [
    token.slice(0, -1),
    `${token}x`,
    token.slice(1),
    `${token} ${token}`,
    token.replace(/.$/, last => (last === 'a' ? 'b' : 'a')),
    'undefined',
    'null',
    '*',
    'ü'.repeat(3),
    'x'.repeat(5000),
  ])
    assertManagementError(await readProjects({ authorization: `Bearer ${wrong}` }), 'unauthorized')
  for (const headers of [
    { authorization: token },
    { authorization: 'Bearer' },
    { authorization: `Basic ${Buffer.from(`admin:${token}`).toString('base64')}` },
    { authorization: `Token ${token}` },
    { apikey: token },
    { 'x-api-key': token },
    { cookie: `token=${token}` },
  ])
    assertManagementError(await readProjects(headers as Record<string, string>), 'unauthorized')
  for (const name of ['token', 'access_token', 'apikey'])
    assertManagementError(await it.call('GET', `/api/v1/projects?${name}=${token}`), 'unauthorized')
})

test('3 §7 an error does not repeat the rejected credential', async () => {
  const wrong = `platform_pat_${unique('guess')}`
  const reply = await readProjects({ authorization: `Bearer ${wrong}` })
  assert.ok(!reply.text.includes(wrong))
})

test('3 §4 creating a token returns 201 with the token once, and the audit entry does not contain it', async () => {
  const name = unique('ci')
  const reply = await it.manage('POST', '/platform/tokens', { name, scope: 'deploy' })
  assert.equal(reply.status, 201)
  assert.deepEqual(Object.keys(reply.body).sort(), [...metadata, 'token'].sort())
  assert.match(reply.body.token, /^platform_pat_[\w-]{20,}$/)
  assert.match(reply.body.id, uuid)
  const { scope, expires_at, revoked_at } = reply.body
  assert.deepEqual(
    { name: reply.body.name, scope, expires_at, revoked_at },
    { name, scope: 'deploy', expires_at: null, revoked_at: null },
  )
  assert.equal(await works(reply.body.token), 200)
  const entry = await auditOf(it, 'platform.token_minted', reply)
  assert.equal(entry.target, reply.body.id)
  assert.equal(entry.actor.kind, 'admin_token')
  assert.equal(entry.project_id, null)
  assert.ok(!JSON.stringify(entry).includes(reply.body.token))
})

test('3 §2 listing shows metadata only, never hashes or plaintext', async () => {
  const minted = await mintToken(it, 'read')
  const reply = await it.manage('GET', '/platform/tokens')
  assert.equal(reply.status, 200)
  assert.deepEqual(Object.keys(reply.body).sort(), ['limit', 'offset', 'tokens', 'total'])
  const tokens = await listAll(it, '/platform/tokens?', 'tokens')
  const listed = tokens.find(({ id }) => id === minted.id)
  assert.deepEqual(Object.keys(listed).sort(), metadata)
  assert.equal(listed.name, minted.name)
  assert.ok(!JSON.stringify(tokens).includes(minted.token.replace('platform_pat_', '')))
})

test('3 §5 a platform token shows when it was last used', async () => {
  const minted = await mintToken(it, 'read')
  const lastUsed = async () => {
    const tokens = await listAll(it, '/platform/tokens?', 'tokens')
    return tokens.find(({ id }) => id === minted.id).last_used_at
  }
  assert.equal(await lastUsed(), null)
  assert.equal(await works(minted.token), 200)
  const deadline = Date.now() + 60_000
  while ((await lastUsed()) === null && Date.now() < deadline) await sleep(25)
  assert.ok(Math.abs(Date.parse(await lastUsed()) - Date.now()) < 60_000)
})

test('3 §5 a platform token must match exactly', async () => {
  const { token } = await mintToken(it, 'admin')
  const other = token.replace(/.$/, last => (last === 'a' ? 'b' : 'a'))
  for (const wrong of [
    other,
    `${token}A`,
    token.slice(0, -1),
    token.toUpperCase(),
    'platform_pat_',
    'platform_pat_%',
  ])
    assertManagementError(await readProjects({ authorization: `Bearer ${wrong}` }), 'unauthorized')
})

test('3 §4 a revoked platform token is 401 immediately, and its revocation is audited', async () => {
  const minted = await mintToken(it, 'admin')
  assert.equal(await works(minted.token), 200)
  const reply = await it.manage('DELETE', `/platform/tokens/${minted.id}`)
  assert.equal(reply.status, 204)
  assert.equal(reply.text, '')
  assertManagementError(await readProjects({ authorization: `Bearer ${minted.token}` }), 'unauthorized')
  const entry = await auditOf(it, 'platform.token_revoked', reply)
  assert.equal(entry.target, minted.id)
  assertManagementError(await it.manage('DELETE', `/platform/tokens/${minted.id}`), 'token_not_found')
  const tokens = await listAll(it, '/platform/tokens?', 'tokens')
  const listed = tokens.find(({ id }) => id === minted.id)
  if (listed) assert.notEqual(listed.revoked_at, null)
})

test('3 §4 a platform token may revoke itself', async () => {
  const minted = await mintToken(it, 'admin')
  const reply = await it.call('DELETE', `/api/v1/platform/tokens/${minted.id}`, { token: minted.token })
  assert.equal(reply.status, 204)
  assert.equal(await works(minted.token), 401)
})

test('3 §7 revoking a token that does not exist is 404', async () => {
  assertManagementError(await it.manage('DELETE', `/platform/tokens/${someId}`), 'token_not_found')
})

test('3 §5 a platform token stops working when it expires', async () => {
  // Long enough to use the token once before it expires.
  const end = Date.now() + 10_000
  const expiresAt = new Date(end).toISOString()
  const { token, ...minted } = await mintToken(it, 'read', { expires_at: expiresAt })
  assert.equal(Date.parse((minted as any).expires_at), Date.parse(expiresAt))
  assert.equal(await works(token), 200)
  await sleep(end + 200 - Date.now())
  assertManagementError(await readProjects({ authorization: `Bearer ${token}` }), 'unauthorized')
})

test('3 §5 a platform token with an expiry in the past is rejected', async () => {
  const body = { name: 'late', scope: 'admin', expires_at: new Date(Date.now() - 1000).toISOString() }
  assertManagementError(await it.manage('POST', '/platform/tokens', body), 'invalid_request', /expires_at/)
})

test('3 §4 a token needs a name, one of three scopes and a valid date', async () => {
  const good = { name: 'x', scope: 'read' }
  for (const body of [
    {},
    { scope: 'read' },
    { name: 'x' },
    { ...good, name: '' },
    { ...good, name: 'x'.repeat(101) },
    { ...good, name: 5 },
    { ...good, scope: 'root' },
    { ...good, scope: 'Admin' },
    { ...good, scope: ['admin'] },
    { ...good, scope: null },
    { ...good, expires_at: 'tomorrow' },
    { ...good, expires_at: '2999-02-30T00:00:00Z' },
    { ...good, expires_at: nowSeconds() + 60 },
    { ...good, expires_at: '' },
    { ...good, token: 'platform_pat_of_my_own' },
    { ...good, id: someId },
  ])
    assertManagementError(await it.manage('POST', '/platform/tokens', body), 'invalid_request')
})

test('3 §4 the actor of an audit entry is the credential that was used', async () => {
  const pat = await mintToken(it, 'admin')
  const user = await createUser(it)
  const session = await sessionOf(it, user)
  const mint = (token: string) =>
    it.call('POST', '/api/v1/platform/tokens', { token, body: { name: 'x', scope: 'read' } })
  const actorOf = async (token: string) =>
    (await auditOf(it, 'platform.token_minted', await mint(token))).actor
  assert.deepEqual(await actorOf(pat.token), { kind: 'token', id: pat.id, label: pat.name })
  assert.deepEqual(await actorOf(session), { kind: 'user', id: user.id, label: user.email })
  const root = await actorOf(it.adminToken)
  assert.equal(root.kind, 'admin_token')
  assert.ok(!JSON.stringify(root).includes(it.adminToken))
})

test('3 §8 a page of tokens is capped at 100', async () => {
  const { body: before } = await it.manage('GET', '/platform/tokens?limit=0')
  await Promise.all(Array.from({ length: 101 }, () => mintToken(it, 'read')))
  const ids = (reply: any) => reply.body.tokens.map((each: { id: string }) => each.id)
  const first = await it.manage('GET', '/platform/tokens?limit=5000')
  assert.equal(first.body.limit, 100)
  assert.equal(first.body.offset, 0)
  assert.equal(first.body.tokens.length, 100)
  assert.ok(first.body.total >= before.total + 101)
  // A token that another file mints between two requests moves the second page.
  await until('two pages of the same list', async () => {
    const start = ids(await it.manage('GET', '/platform/tokens?limit=100'))
    const second = await it.manage('GET', '/platform/tokens?limit=100&offset=100')
    assert.equal(second.body.offset, 100)
    assert.ok(ids(second).length >= 1)
    return new Set([...start, ...ids(second)]).size === start.length + ids(second).length
  })
})
