// 3 §2 and §4 "Projects": creating, listing, reading and changing projects.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  auditOf,
  type CreatedProject,
  createProject,
  listAll,
  sleep,
  someId,
  unique,
  userJwt,
  uuid,
} from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const shown = [
  'anon_key',
  'api_url',
  'created_at',
  'description',
  'id',
  'name',
  'quotas',
  'settings',
  'slug',
  'status',
  'updated_at',
]
const slugs = /^[a-z0-9][a-z0-9-]{1,48}[a-z0-9]$/
const create = (body: unknown) => it.manage('POST', '/projects', body)
const read = (id: string) => it.manage('GET', `/projects/${id}`)
const patch = (id: string, body: unknown) => it.manage('PATCH', `/projects/${id}`, body)
const suspend = (id: string) => it.manage('POST', `/projects/${id}/suspend`)
const resume = (id: string) => it.manage('POST', `/projects/${id}/resume`)
const whoami = (project: Pick<CreatedProject, 'id'>, apikey: string, token?: string) =>
  it.call('GET', `/v1/whoami/${project.id}`, { apikey, token })

const assertShowsNoSecret = (text: string, project: CreatedProject) => {
  for (const secret of [project.service_role_key, project.jwt_secret]) assert.ok(!text.includes(secret))
}

test('3 §2 creation answers 201 with the project, its keys and its JWT secret', async () => {
  const name = unique('Shop')
  const reply = await create({ name, description: 'All we sell' })
  assert.equal(reply.status, 201)
  assert.deepEqual(Object.keys(reply.body).sort(), [...shown, 'jwt_secret', 'service_role_key'].sort())
  const project: CreatedProject = reply.body
  assert.match(project.id, uuid)
  assert.match(project.slug, slugs)
  const { status, description, settings, quotas } = project
  assert.deepEqual(
    { name: project.name, status, description, settings, quotas },
    { name, status: 'active', description: 'All we sell', settings: {}, quotas: {} },
  )
  // 1 §2.2: the form of the anon key.
  assert.ok(project.anon_key.startsWith(`platform_anon_${project.slug}_`), project.anon_key)
  assert.match(project.anon_key.slice(`platform_anon_${project.slug}_`.length), /^[\w-]{20,}$/)
  assert.notEqual(project.service_role_key, project.anon_key)
  assert.ok(project.jwt_secret.length >= 32)
  assert.ok(Math.abs(Date.parse(project['created_at']) - Date.now()) < 60_000)

  const entry = await auditOf(it, 'project.created', reply)
  assert.equal(entry.target, project.id)
  assert.equal(entry.project_id, project.id)
  assert.equal(entry.actor.kind, 'admin_token')
  assertShowsNoSecret(JSON.stringify(entry), project)
})

test('3 §4 a created project is provisioned when the answer arrives', async () => {
  const project = await createProject(it)
  assert.equal((await whoami(project, project.anon_key)).body.role, 'anon')
  assert.equal((await whoami(project, project.service_role_key)).body.role, 'service_role')
  assert.equal((await whoami(project, project.anon_key, userJwt(project))).body.role, 'authenticated')
})

test('3 §2 only the creation response has the service_role key and the JWT secret', async () => {
  const project = await createProject(it)
  const replies = [
    await read(project.id),
    await it.manage('GET', '/projects?limit=100'),
    await patch(project.id, { description: 'x' }),
    await suspend(project.id),
    await resume(project.id),
  ]
  for (const { status, text } of replies) {
    assert.equal(status, 200)
    assertShowsNoSecret(text, project)
  }
  for (const index of [2, 3, 4]) assert.deepEqual(Object.keys(replies[index]!.body).sort(), shown)
  assert.deepEqual(Object.keys(replies[0]!.body).sort(), [...shown, 'database_bytes', 'storage_bytes'].sort())
  assert.equal(replies[0]!.body.anon_key, project.anon_key)
})

test('3 §2 keys, secret and id of every project are unique, also for concurrent creations', async () => {
  const created = await Promise.all(Array.from({ length: 4 }, () => createProject(it, { name: 'Same name' })))
  for (const field of ['id', 'slug', 'anon_key', 'service_role_key', 'jwt_secret'])
    assert.equal(new Set(created.map(each => each[field])).size, 4, field)
  for (const { slug } of created) assert.match(slug, slugs)
})

test('3 §2 a slug is derived from any name', async () => {
  for (const name of ['日本語', 'a', `${'long '.repeat(20)}`.trim(), 'Ünïcödé & Söhne', '../../etc']) {
    const project = await createProject(it, { name })
    assert.match(project.slug, slugs, name)
    assert.equal(project.name, name)
  }
})

test('3 §2 a given slug is used unchanged', async () => {
  const random = unique('0').slice(2)
  for (const slug of [random.slice(0, 3), `${random}-${'-'.repeat(38)}z`]) {
    assert.ok(slug.length === 3 || slug.length === 50)
    const reply = await create({ name: 'x', slug })
    // On a shared server a slug of three random characters may be taken.
    if (slug.length === 3 && reply.status === 409) continue
    assert.equal(reply.status, 201, reply.text)
    assert.equal(reply.body.slug, slug)
  }
})

test('3 §2 a slug has 3 to 50 characters: lowercase letters, digits, inner hyphens', async () => {
  for (const slug of [
    'ab',
    'l'.repeat(51),
    'Abc',
    '-abc',
    'abc-',
    'a_b',
    'a b',
    'a.b',
    'äbc',
    'abc\n',
    '',
    "a'b",
    'a/b',
    5,
    null,
  ])
    assertManagementError(await create({ name: 'x', slug }), 'invalid_request', /slug/)
})

test('3 §2 slugs are unique, also for concurrent creations', async () => {
  const slug = unique('taken')
  const replies = await Promise.all(Array.from({ length: 4 }, () => create({ name: 'x', slug })))
  assert.deepEqual(replies.map(({ status }) => status).sort(), [201, 409, 409, 409])
  for (const reply of replies) if (reply.status === 409) assertManagementError(reply, 'slug_taken')
  assertManagementError(await create({ name: 'another', slug }), 'slug_taken')
})

test('3 §4 creation rejects wrong types, unknown fields and fields that only the platform sets', async () => {
  const name = unique('never')
  for (const body of [
    {},
    { slug: 'abc' },
    { name: '' },
    { name: '   ' },
    { name: 'x'.repeat(101) },
    { name: 5 },
    { name: null },
    { name: ['x'] },
    { name, description: 5 },
    { name, description: 'x'.repeat(2001) },
    { name, settings: [] },
    { name, settings: 'x' },
    { name, quotas: { max_storage_size_mb: -1 } },
    { name, quotas: { max_storage_size_mb: 1.5 } },
    { name, quotas: { max_storage_size_mb: '10' } },
    { name, quotas: { unheard_of: 1 } },
    { name, status: 'suspended' },
    { name, id: someId },
    { name, anon_key: 'mine' },
    { name, service_role_key: 'mine' },
    { name, jwt_secret: 'mine' },
  ])
    assertManagementError(await create(body), 'invalid_request')
  const projects = await listAll(it, '/projects?', 'projects')
  assert.ok(!projects.some(project => project.name === name), 'nothing was created')
})

test('3 §4 projects are listed in pages, newest first, and by status', async () => {
  const first = await createProject(it)
  const second = await createProject(it)
  await suspend(first.id)
  const list = async (query: string) => (await it.manage('GET', `/projects?${query}`)).body
  const ids = (page: { projects: CreatedProject[] }) => page.projects.map(({ id }) => id)

  const all = await list('limit=100')
  assert.deepEqual(Object.keys(all).sort(), ['limit', 'offset', 'projects', 'total'])
  const [newer, older] = [ids(all).indexOf(second.id), ids(all).indexOf(first.id)]
  assert.ok(newer >= 0 && newer < older, `${newer}, ${older}`)
  for (const each of all.projects) assert.deepEqual(Object.keys(each).sort(), shown)

  const suspended = await list('status=suspended&limit=100')
  assert.ok(ids(suspended).includes(first.id))
  assert.ok(suspended.projects.every(({ status }: CreatedProject) => status === 'suspended'))
  const active = await list('status=active&limit=100')
  assert.ok(ids(active).includes(second.id) && !ids(active).includes(first.id))
  assert.ok(active.total > 0 && active.total < all.total + suspended.total)

  const page = await list(`limit=1&offset=${older}`)
  assert.equal(page.projects.length, 1)
  assert.deepEqual([page.limit, page.offset], [1, older])
  assertManagementError(await it.manage('GET', '/projects?status=deleted'), 'invalid_request', /status/)
})

test('3 §7 a project that does not exist is 404 on every route', async () => {
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PATCH', '', { name: 'x' }],
    ['DELETE', '', undefined],
    ['POST', '/suspend', undefined],
    ['POST', '/resume', undefined],
    ['GET', '/keys/service-role', undefined],
    ['POST', '/rotate/jwt', undefined],
    ['POST', '/rotate/api-keys', undefined],
  ] as const)
    assertManagementError(await it.manage(method, `/projects/${someId}${path}`, body), 'project_not_found')
  assertManagementError(await it.manage('GET', '/projects/not-an-id'), 'invalid_request', /id/)
})

test('3 §4 PATCH changes name and description, leaves the rest, and is audited', async () => {
  const project = await createProject(it, { description: 'old', settings: { theme: 'dark' } })
  await sleep(5)
  const reply = await patch(project.id, { name: 'New name' })
  assert.equal(reply.status, 200)
  const { name, description, slug, anon_key, settings } = reply.body
  assert.deepEqual(
    { name, description, slug, anon_key, settings },
    {
      name: 'New name',
      description: 'old',
      slug: project.slug,
      anon_key: project.anon_key,
      settings: { theme: 'dark' },
    },
  )
  assert.ok(Date.parse(reply.body.updated_at) > Date.parse(project['updated_at']))
  assert.equal(reply.body.created_at, project['created_at'])
  const { database_bytes, ...details } = (await read(project.id)).body
  assert.deepEqual(details, { ...reply.body, storage_bytes: 0 })
  assert.ok(database_bytes > 1_000_000, `${database_bytes}`)
  const entry = await auditOf(it, 'project.updated', reply)
  assert.deepEqual([entry.target, entry.project_id], [project.id, project.id])
  assert.equal((await patch(project.id, { description: '' })).body.description, '')
})

test('3 §4 PATCH of settings and quotas merges top-level keys, null deletes one', async () => {
  const project = await createProject(it, {
    settings: { theme: 'dark', limits: { a: 1, b: 2 }, list: [1, 2] },
    quotas: { max_storage_size_mb: 10, rate_limit_anon: 5 },
  })
  assert.deepEqual(project['quotas'], { max_storage_size_mb: 10, rate_limit_anon: 5 })
  const settings = async (change: object) => (await patch(project.id, { settings: change })).body.settings
  assert.deepEqual(await settings({ limits: { c: 3 }, added: true }), {
    theme: 'dark',
    limits: { c: 3 },
    list: [1, 2],
    added: true,
  })
  assert.deepEqual(await settings({ theme: null, absent: null }), {
    limits: { c: 3 },
    list: [1, 2],
    added: true,
  })
  assert.deepEqual(await settings({}), { limits: { c: 3 }, list: [1, 2], added: true })

  const quotas = async (change: object) => (await patch(project.id, { quotas: change })).body.quotas
  assert.deepEqual(await quotas({ realtime_max_clients: 7 }), {
    max_storage_size_mb: 10,
    rate_limit_anon: 5,
    realtime_max_clients: 7,
  })
  assert.deepEqual(await quotas({ rate_limit_anon: null, max_storage_size_mb: 0 }), {
    max_storage_size_mb: 0,
    realtime_max_clients: 7,
  })
  const { body } = await read(project.id)
  assert.deepEqual(body.settings, { limits: { c: 3 }, list: [1, 2], added: true })
  assert.deepEqual(body.quotas, { max_storage_size_mb: 0, realtime_max_clients: 7 })
})

test('3 §4 concurrent PATCHes of different keys are all kept', async () => {
  const project = await createProject(it)
  const keys = Array.from({ length: 8 }, (_, i) => `key${i}`)
  const replies = await Promise.all(keys.map(key => patch(project.id, { settings: { [key]: key } })))
  assert.ok(replies.every(({ status }) => status === 200))
  const { body } = await read(project.id)
  assert.deepEqual(body.settings, Object.fromEntries(keys.map(key => [key, key])))
})
