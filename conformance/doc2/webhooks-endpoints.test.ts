// 2 §2 "Webhook endpoint", §4.6 and the issue: creating, reading, changing and deleting webhooks.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertTime } from '../auth.ts'
import { auditOf, createProject, mintToken, someId, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { elsewhere, type WebhooksApi, webhooksProject } from '../webhooks.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
let own: WebhooksApi
before(async () => {
  it = await target()
  own = await webhooksProject(it)
})
after(() => it.stop())

const withoutSecret = ({ secret: _, ...webhook }: any) => webhook

test('2 §4.6 creating a webhook returns its fields and its secret', async () => {
  const input = {
    url: elsewhere,
    events: ['user.created', 'db.public.todos.*'],
    description: 'orders → mail',
  }
  const { status, body, text } = await own.hooks('POST', '', input)
  assert.equal(status, 201, text)
  assert.partialDeepStrictEqual(body, { ...input, is_active: true })
  assert.match(body.id, uuid)
  assertTime(body.created_at, 'created_at')
  assert.ok(Math.abs(Date.parse(body.created_at) - Date.now()) < 600_000)
  // whsec_ and 32 random bytes in base64, as the libraries for Standard Webhooks expect.
  assert.match(body.secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  const other = (await own.hooks('POST', '', { url: elsewhere, events: ['*'] })).body
  assert.notEqual(other.secret, body.secret)
  assert.equal(other.description, '')
})

test('2 §2 the secret is returned only at creation', async () => {
  const { secret, ...webhook } = await own.create(elsewhere)
  const bare = secret.slice('whsec_'.length)
  const replies = [
    await own.hooks('GET', '?limit=100'),
    await own.hooks('GET', `/${webhook.id}`),
    await own.hooks('PATCH', `/${webhook.id}`, { description: 'changed' }),
    await own.hooks('GET', `/${webhook.id}/deliveries`),
    await own.hooks('GET', `/${webhook.id}/attachments`),
    await it.manage('GET', `/admin/audit?project_id=${own.project.id}`),
    await it.manage('GET', `/projects/${own.project.id}`),
  ]
  for (const { status, text } of replies) {
    assert.equal(status, 200, text)
    assert.ok(!text.includes(bare) && !text.includes('"secret":'), text)
  }
})

test('2 §4.6 the list has the webhooks of the project, in pages', async () => {
  const listing = await webhooksProject(it)
  const empty = await listing.hooks('GET', '')
  assert.deepEqual(empty.body, { webhooks: [], total: 0, limit: empty.body.limit, offset: 0 })
  const created = []
  for (const event of ['user.created', 'user.updated', 'user.deleted'])
    created.push(withoutSecret(await listing.create(elsewhere, [event])))
  const byId = (webhooks: any[]) => webhooks.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  const list = await listing.hooks('GET', '')
  assert.deepEqual(byId(list.body.webhooks), byId(created))
  assert.equal(list.body.total, 3)
  const pages = [await listing.hooks('GET', '?limit=2'), await listing.hooks('GET', '?limit=2&offset=2')]
  assert.deepEqual(
    pages.map(({ body }) => [body.webhooks.length, body.total, body.limit, body.offset]),
    [
      [2, 3, 2, 0],
      [1, 3, 2, 2],
    ],
  )
  assert.deepEqual(byId(pages.flatMap(({ body }) => body.webhooks)), byId(created))
  assert.equal((await listing.hooks('GET', '?limit=5000')).body.limit, 100)
  assertManagementError(await listing.hooks('GET', '?limit=x'), 'invalid_request')
})

test('2 §4.6 an update changes the given fields and returns the webhook without its secret', async () => {
  const created = withoutSecret(await own.create(elsewhere, ['user.created']))
  const changes = [
    { url: `${elsewhere}/other` },
    { events: ['db.public.todos.insert', '*'] },
    { is_active: false },
    { description: 'paused' },
    { is_active: true, description: '' },
  ]
  let expected = created
  for (const change of changes) {
    const updated = await own.update(created.id, change)
    expected = { ...expected, ...change, updated_at: updated.updated_at }
    assert.deepEqual(updated, expected)
    assert.deepEqual(await own.read(created.id), expected)
  }
  assert.ok(expected.updated_at > created.updated_at)
})

test('2 §4.6 an update needs at least one field, and changes nothing if one is invalid', async () => {
  const created = withoutSecret(await own.create(elsewhere, ['user.created']))
  const refused: [unknown, 'invalid_request' | 'invalid_webhook_event' | 'invalid_webhook_url'][] = [
    [{}, 'invalid_request'],
    [{ secret: 'whsec_mine' }, 'invalid_request'],
    [{ is_active: 'false' }, 'invalid_request'],
    [{ is_active: null }, 'invalid_request'],
    [{ is_active: false, events: [] }, 'invalid_request'],
    [{ is_active: false, events: ['user.renamed'] }, 'invalid_webhook_event'],
    [{ is_active: false, url: 'ftp://example.com/' }, 'invalid_request'],
    [{ is_active: false, url: 'http://10.0.0.1/' }, 'invalid_webhook_url'],
    [{ is_active: false, description: 'x'.repeat(501) }, 'invalid_request'],
  ]
  for (const [body, code] of refused)
    assertManagementError(await own.hooks('PATCH', `/${created.id}`, body), code)
  assert.deepEqual(await own.read(created.id), created)
})

test('2 §4.6 a deleted webhook is gone with its deliveries and attachments', async () => {
  const { id } = await own.create(elsewhere)
  const removed = await own.hooks('DELETE', `/${id}`)
  assert.deepEqual([removed.status, removed.text], [204, ''])
  await assertAbsent(own, id)
  const list = await own.hooks('GET', '?limit=100')
  assert.ok(!list.text.includes(id))
})

async function assertAbsent(api: WebhooksApi, wid: string): Promise<void> {
  const calls: [string, string, unknown?][] = [
    ['GET', ''],
    ['PATCH', '', { is_active: true }],
    ['DELETE', ''],
    ['POST', '/rotate-secret'],
    ['POST', '/test'],
    ['GET', '/deliveries'],
    ['GET', `/deliveries/${someId}`],
    ['POST', `/deliveries/${someId}/retry`],
    ['POST', '/attach', { table: 'todos' }],
    ['DELETE', '/attach/todos'],
    ['GET', '/attachments'],
  ]
  for (const [method, path, body] of calls) {
    const reply = await api.hooks(method, `/${wid}${path}`, body)
    assert.equal(reply.body?.error?.code, 'webhook_not_found', `${method} ${path}: ${reply.text}`)
    assertManagementError(reply, 'webhook_not_found')
  }
}

test('2 §4.6 rule 2: a webhook is known only in its own project', async () => {
  const other = await webhooksProject(it)
  const { id } = await own.create(elsewhere)
  await assertAbsent(other, id)
  await assertAbsent(other, someId)
  assert.equal((await own.read(id)).id, id)
  assertManagementError(await own.hooks('GET', '/not-an-id'), 'invalid_request')
  for (const [method, path, body] of [
    ['GET', ''],
    ['POST', '', { url: elsewhere, events: ['*'] }],
    ['GET', `/${id}`],
    ['DELETE', `/${id}`],
    ['POST', `/${id}/attach`, { table: 'todos' }],
  ] as const)
    assertManagementError(
      await it.manage(method, `/projects/${someId}/webhooks${path}`, body),
      'project_not_found',
    )
})

const validEvents = [
  'user.created',
  'user.updated',
  'user.deleted',
  'user.signed_in',
  'user.signed_out',
  'db.public.todos.insert',
  'db.public.todos.update',
  'db.public.todos.delete',
  'db.shop.orders.*',
  'db.Shop.Order Lines.*',
  '*',
]

test('2 §6 a webhook subscribes to auth events, row changes and wildcards', async () => {
  for (const event of validEvents) assert.deepEqual((await own.create(elsewhere, [event])).events, [event])
  assert.deepEqual((await own.create(elsewhere, validEvents)).events, validEvents)
})

test('2 §6 other events are refused with a message that names the event', async () => {
  for (const event of [
    'user',
    'user.*',
    'user.banned',
    'User.Created',
    ' user.created',
    'db',
    'db.*',
    'db.public.*',
    'db.public.todos',
    'db.public.todos.truncate',
    'db.public.todos.INSERT',
    'db.public.todos.',
    'db..todos.insert',
    'db.public..insert',
    '**',
    'storage.object.created',
  ]) {
    const reply = await own.hooks('POST', '', { url: elsewhere, events: ['user.created', event] })
    assert.equal(reply.status, 400, `${event}: ${reply.status} ${reply.text}`)
    assertManagementError(reply, 'invalid_webhook_event')
    assert.ok(reply.body.error.message.includes(JSON.stringify(event)), reply.text)
  }
})

test('2 §4.6 bodies that do not make sense are refused', async () => {
  const before = (await own.hooks('GET', '')).body.total
  const input = { url: elsewhere, events: ['*'] }
  for (const body of [
    '{',
    [],
    {},
    { url: elsewhere },
    { events: ['*'] },
    { ...input, url: null },
    { ...input, url: '' },
    { ...input, url: 5 },
    { ...input, url: 'example.com/hook' },
    { ...input, url: '/hook' },
    { ...input, url: 'ftp://example.com/' },
    { ...input, url: 'file:///etc/passwd' },
    { ...input, url: 'javascript:alert(1)' },
    { ...input, url: 'https://' },
    { ...input, url: 'https://exa mple.com/' },
    { ...input, url: 'https://example.com:99999/' },
    { ...input, url: 'https://example.com/\r\nx-injected: 1' },
    { ...input, url: `https://example.com/${'x'.repeat(2048)}` },
    { ...input, events: [] },
    { ...input, events: '*' },
    { ...input, events: [5] },
    { ...input, events: [''] },
    { ...input, events: [null] },
    { ...input, events: Array.from({ length: 101 }, (_, n) => `db.public.t${n}.insert`) },
    { ...input, description: 5 },
    { ...input, description: 'x'.repeat(501) },
    { ...input, description: 'nul\0' },
    { ...input, secret: 'whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=' },
    { ...input, project_id: someId },
  ]) {
    const reply = await own.hooks('POST', '', body)
    assert.equal(reply.status, 400, `${JSON.stringify(body)}: ${reply.status} ${reply.text}`)
    assert.equal(typeof reply.body.error.message, 'string')
  }
  assert.equal((await own.hooks('GET', '')).body.total, before)
})

test('2 §5, 3 §5 each route needs its scope', async () => {
  const { id } = await own.create(elsewhere)
  const pats = { read: await mintToken(it, 'read'), deploy: await mintToken(it, 'deploy') }
  const root = `/api/v1/projects/${own.project.id}/webhooks`
  const byScope: ['read' | 'deploy' | 'admin', string, string][] = [
    ['admin', 'POST', root],
    ['read', 'GET', root],
    ['read', 'GET', `${root}/${id}`],
    ['admin', 'PATCH', `${root}/${id}`],
    ['admin', 'DELETE', `${root}/${id}`],
    ['admin', 'POST', `${root}/${id}/rotate-secret`],
    ['admin', 'POST', `${root}/${id}/test`],
    ['read', 'GET', `${root}/${id}/deliveries`],
    ['admin', 'POST', `${root}/${id}/deliveries/${someId}/retry`],
    ['deploy', 'POST', `${root}/${id}/attach`],
    ['deploy', 'DELETE', `${root}/${id}/attach/todos`],
    ['read', 'GET', `${root}/${id}/attachments`],
    ['admin', 'POST', '/api/v1/admin/webhooks/dlq/purge'],
  ]
  for (const [scope, method, path] of byScope) {
    const body = method === 'POST' || method === 'PATCH' ? {} : undefined
    const call = (token?: string) => it.call(method, path, { token, body })
    for (const token of [undefined, own.project.anon_key, own.project.service_role_key])
      assertManagementError(await call(token), 'unauthorized')
    for (const smaller of ['read', 'deploy'] as const) {
      const reply = await call(pats[smaller].token)
      const isEnough = scope === 'read' || scope === smaller
      if (!isEnough) assertNeedsScope(reply, scope)
      else assert.ok(reply.status < 500 && ![401, 403].includes(reply.status), `${smaller}: ${path}`)
    }
  }
  assert.equal((await own.read(id)).is_active, true)
})

test('Clarifications: the quota max_webhooks is 429', async () => {
  const small = await webhooksProject(it)
  const set = await it.manage('PATCH', `/projects/${small.project.id}`, { quotas: { max_webhooks: 3 } })
  assert.equal(set.status, 200, set.text)
  const replies = await Promise.all(
    Array.from({ length: 10 }, () => small.hooks('POST', '', { url: elsewhere, events: ['*'] })),
  )
  const refused = replies.filter(({ status }) => status !== 201)
  assert.equal(refused.length, 7)
  for (const reply of refused) assertManagementError(reply, 'too_many_webhooks', /3/)
  const { webhooks } = (await small.hooks('GET', '')).body
  assert.equal(webhooks.length, 3)
  assert.equal((await small.update(webhooks[0].id, { description: 'still editable' })).id, webhooks[0].id)
  await small.hooks('DELETE', `/${webhooks[0].id}`)
  await small.create(elsewhere)
  assertManagementError(await small.hooks('POST', '', { url: elsewhere, events: ['*'] }), 'too_many_webhooks')
})

test('Issue: rotating the secret returns a new one and says until when both sign', async () => {
  const { secret, ...created } = await own.create(elsewhere)
  const { status, body, text } = await own.hooks('POST', `/${created.id}/rotate-secret`)
  assert.equal(status, 200, text)
  assert.match(body.secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
  assert.notEqual(body.secret, secret)
  const hours = (Date.parse(body.secret_overlap_until) - Date.now()) / 3_600_000
  assert.ok(hours > 23.8 && hours < 24.2, `${hours} hours`)
  assert.deepEqual(
    { ...withoutSecret(body), updated_at: '', secret_overlap_until: null },
    { ...created, updated_at: '' },
  )
  assert.deepEqual(await own.read(created.id), withoutSecret(body))
})

test('3 §1 every change is in the audit log', async () => {
  const created = await own.hooks('POST', '', { url: elsewhere, events: ['*'] })
  const path = `/${created.body.id}`
  await own.sql('create table if not exists public.audited (id int)')
  const replies: [string, Awaited<typeof created>][] = [
    ['webhooks.created', created],
    ['webhooks.updated', await own.hooks('PATCH', path, { description: 'x' })],
    ['webhooks.secret_rotated', await own.hooks('POST', `${path}/rotate-secret`)],
    ['webhooks.attached', await own.hooks('POST', `${path}/attach`, { table: 'audited' })],
    ['webhooks.detached', await own.hooks('DELETE', `${path}/attach/audited`)],
    ['webhooks.deleted', await own.hooks('DELETE', path)],
  ]
  for (const [action, reply] of replies) {
    assert.ok(reply.status < 300, `${action}: ${reply.text}`)
    assert.equal((await auditOf(it, action, reply)).project_id, own.project.id)
  }
})

test('3 §3 the webhooks of a deleted project are gone', async () => {
  const { id } = await createProject(it)
  const root = `/projects/${id}/webhooks`
  const created = await it.manage('POST', root, { url: elsewhere, events: ['*'] })
  assert.equal(created.status, 201, created.text)
  assert.equal((await it.manage('DELETE', `/projects/${id}`)).status, 204)
  assertManagementError(await it.manage('GET', root), 'project_not_found')
  assertManagementError(await it.manage('GET', `${root}/${created.body.id}`), 'project_not_found')
})
