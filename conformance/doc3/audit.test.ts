// 3 §4 "Platform administration" and §6: the audit log and the counts.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  auditOf,
  createProject,
  createUser,
  login,
  mintToken,
  sessionOf,
  sleep,
  someId,
  unique,
  userJwt,
} from '../people.ts'
import { freshTarget, type Target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
before(async () => {
  it = await freshTarget()
})
after(() => it.stop())

const fields = ['action', 'actor', 'at', 'details', 'id', 'ip', 'project_id', 'request_id', 'target']
const audit = async (query = '') => (await it.manage('GET', `/admin/audit?${query}`)).body
const exported = (query = '') => it.manage('GET', `/admin/audit/export?${query}`)
const names = (entries: { action: string }[]) => entries.map(({ action }) => action)

/** An entry may be written shortly after the response. */
async function settled(query: string, count: number): Promise<any> {
  for (const deadline = Date.now() + 60_000; ; await sleep(25)) {
    const page = await audit(query)
    if (page.total >= count || Date.now() > deadline) return page
  }
}

function parseCsv(text: string): string[][] {
  const rows: string[][] = [[]]
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g)) {
    rows.at(-1)!.push(quoted?.replaceAll('""', '"') ?? plain ?? '')
    if (end !== ',') rows.push([])
  }
  return rows.filter(row => row.length > 1)
}

test('3 §4 an audit entry has actor, action, target, IP address and request id', async () => {
  const project = await createProject(it)
  const pat = await mintToken(it, 'admin', { name: unique('operator') })
  const started = Date.now()
  const reply = await it.call('PATCH', `/api/v1/projects/${project.id}`, {
    token: pat.token,
    body: { description: 'changed' },
    headers: { 'x-request-id': 'chosen-by-the-caller' },
  })
  const entry = await auditOf(it, 'project.updated', reply)
  assert.deepEqual(Object.keys(entry).sort(), fields)
  assert.deepEqual(entry.actor, { kind: 'token', id: pat.id, label: pat.name })
  assert.equal(entry.target, project.id)
  assert.equal(entry.project_id, project.id)
  assert.equal(entry.request_id, reply.headers.get('x-request-id'))
  assert.match(entry.ip, /^(::ffff:)?127\.0\.0\.1$|^::1$/)
  assert.ok(Math.abs(Date.parse(entry.at) - started) < 60_000)
})

test('3 §1 a rejected request is not recorded in the audit log', async () => {
  const { token } = await mintToken(it, 'read')
  const before = await audit('action=project.created')
  await it.call('POST', '/api/v1/projects', { body: { name: 'x' } })
  await it.call('POST', '/api/v1/projects', { token, body: { name: 'x' } })
  await it.manage('POST', '/projects', { name: 5 })
  await it.manage('DELETE', `/projects/${someId}`)
  await sleep(200)
  assert.equal((await audit('action=project.created')).total, before.total)
  assert.equal((await audit('action=project.deleted')).total, 0)
})

test('3 §4 reads are not recorded, except reveals of secrets', async () => {
  await sleep(100)
  const before = await audit('limit=0')
  for (const path of ['/projects', '/platform/tokens', '/admin/users', '/admin/stats', '/admin/audit'])
    await it.manage('GET', path)
  await sleep(100)
  assert.equal((await audit('limit=0')).total, before.total)
})

test('3 §4 entries are listed newest first, in pages', async () => {
  const project = await createProject(it)
  for (let i = 0; i < 11; i++) await it.manage('PATCH', `/projects/${project.id}`, { description: `${i}` })
  const mine = `project_id=${project.id}`
  const page = await settled(mine, 12)
  assert.deepEqual(Object.keys(page).sort(), ['entries', 'limit', 'offset', 'total'])
  assert.equal(page.total, 12)
  assert.deepEqual(names(page.entries), [...Array(11).fill('project.updated'), 'project.created'])
  const times = page.entries.map(({ at }: { at: string }) => Date.parse(at))
  assert.deepEqual(
    times,
    times.toSorted((a: number, b: number) => b - a),
  )

  const [first, second, third] = await Promise.all([
    audit(`${mine}&limit=5`),
    audit(`${mine}&limit=5&offset=5`),
    audit(`${mine}&limit=5&offset=10`),
  ])
  assert.deepEqual([first.limit, first.offset, first.total], [5, 0, 12])
  assert.deepEqual([second.limit, second.offset, third.entries.length], [5, 5, 2])
  assert.deepEqual([...first.entries, ...second.entries, ...third.entries], page.entries)
})

test('3 §4 entries of the whole platform are listed newest first', async () => {
  const { entries } = await audit('limit=100')
  const times = entries.map(({ at }: { at: string }) => Date.parse(at))
  assert.deepEqual(
    times,
    times.toSorted((a: number, b: number) => b - a),
  )
})

test('3 §4 entries are filtered by action, project and time', async () => {
  const [one, other] = [await createProject(it), await createProject(it)]
  await it.manage('POST', `/projects/${one.id}/suspend`)
  await settled(`project_id=${one.id}`, 2)
  await settled(`project_id=${other.id}`, 1)

  const suspensions = await audit('action=project.suspended&limit=100')
  assert.ok(suspensions.entries.length > 0)
  assert.ok(names(suspensions.entries).every(action => action === 'project.suspended'))
  assert.equal((await audit('action=nothing.happened')).total, 0)
  assert.equal((await audit('action=project.suspende')).total, 0, 'the whole name')
  assert.equal((await audit('action=%25')).total, 0, 'not a pattern')

  const mine = await audit(`project_id=${one.id}`)
  assert.deepEqual(names(mine.entries), ['project.suspended', 'project.created'])
  assert.equal((await audit(`project_id=${one.id}&action=project.created`)).total, 1)
  assert.equal((await audit(`project_id=${someId}`)).total, 0)

  const [suspended, created] = mine.entries.map(({ at }: { at: string }) => at)
  const between = new Date((Date.parse(created) + Date.parse(suspended)) / 2).toISOString()
  const in1h = new Date(Date.now() + 3_600_000).toISOString()
  const only = async (bounds: string) => names((await audit(`project_id=${one.id}&${bounds}`)).entries)
  assert.deepEqual(await only(`from=${between}`), ['project.suspended'])
  assert.deepEqual(await only(`to=${between}`), ['project.created'])
  assert.deepEqual(await only(`from=${in1h}`), [])
  assert.deepEqual(await only(`to=${in1h}`), ['project.suspended', 'project.created'])

  for (const bad of ['project_id=x', 'from=yesterday', 'to=2026-99-99T00:00:00Z', 'limit=-1'])
    assertManagementError(await it.manage('GET', `/admin/audit?${bad}`), 'invalid_request')
})

test('3 §4 export returns every entry, oldest first, as JSON and as CSV', async () => {
  const filter = 'action=platform.token_minted'
  await sleep(200)
  const { total: earlier } = await audit(`${filter}&limit=0`)
  const tricky = unique('a "quoted", name\nwith =lines;')
  const pat = await mintToken(it, 'admin', { name: tricky })
  await Promise.all(
    Array.from({ length: 105 }, () =>
      it.call('POST', '/api/v1/platform/tokens', { token: pat.token, body: { name: 'x', scope: 'read' } }),
    ),
  )
  const { total } = await settled(`${filter}&limit=0`, earlier + 106)
  assert.equal(total, earlier + 106)

  const json = await exported(filter)
  assert.equal(json.status, 200)
  assert.match(json.headers.get('content-type') ?? '', /^application\/json/)
  const ids = json.body.map(({ id }: { id: string }) => id)
  assert.equal(new Set(ids).size, ids.length, 'each entry once')
  assert.equal(ids.length, total, 'all of them, beyond any page')
  for (const entry of json.body) assert.deepEqual(Object.keys(entry).sort(), fields)
  const times = json.body.map(({ at }: { at: string }) => Date.parse(at))
  assert.deepEqual(
    times,
    times.toSorted((a: number, b: number) => a - b),
    'oldest first',
  )
  assert.deepEqual((await exported(`format=json&${filter}`)).body, json.body)

  const csv = await exported(`format=csv&${filter}`)
  assert.equal(csv.status, 200)
  assert.match(csv.headers.get('content-type') ?? '', /^text\/csv/)
  const [header, ...rows] = parseCsv(csv.text)
  assert.equal(rows.length, total)
  assert.ok(rows.every(row => row.length === header!.length))
  const column = (name: string) => rows.map(row => row[header!.indexOf(name)])
  for (const name of ['id', 'action', 'target', 'request_id'])
    assert.deepEqual(
      column(name),
      json.body.map((entry: Record<string, string>) => entry[name]),
    )
  assert.ok(
    rows.some(row => row.some(cell => cell.includes(tricky))),
    'commas, quotes and lines survive',
  )
})

test('3 §4 export supports the filters of the list, and is itself recorded', async () => {
  const project = await createProject(it)
  await settled(`project_id=${project.id}`, 1)
  const reply = await exported(`project_id=${project.id}`)
  assert.deepEqual(names(reply.body), ['project.created'])
  const entry = await auditOf(it, 'audit.exported', reply)
  assert.equal(entry.actor.kind, 'admin_token')
  assert.deepEqual((await exported('action=nothing.happened')).body, [])
  const [header, ...rows] = parseCsv((await exported('format=csv&action=nothing.happened')).text)
  assert.ok(header!.includes('action'))
  assert.deepEqual(rows, [])
  const future = new Date(Date.now() + 3_600_000).toISOString()
  assert.deepEqual((await exported(`from=${future}`)).body, [])
  for (const bad of ['format=xml', 'from=x', 'project_id=x'])
    assertManagementError(await exported(bad), 'invalid_request')
})

test('3 §4 prune deletes entries older than the given days, 90 by default, and is recorded', async () => {
  const project = await createProject(it)
  await settled(`project_id=${project.id}`, 1)
  const reply = await it.manage('POST', '/admin/audit/prune')
  assert.equal(reply.status, 200)
  assert.deepEqual(reply.body, { deleted: 0, deleted_auth_events: 0, days: 90 })
  await auditOf(it, 'audit.pruned', reply)
  assert.deepEqual((await it.manage('POST', '/admin/audit/prune?days=1')).body, {
    deleted: 0,
    deleted_auth_events: 0,
    days: 1,
  })
  assert.equal((await audit(`project_id=${project.id}`)).total, 1)
  for (const days of ['0', '-1', 'x', '1.5', '', '99999999999999999999'])
    assertManagementError(
      await it.manage('POST', `/admin/audit/prune?days=${days}`),
      'invalid_request',
      /days/,
    )
})

test('3 §4 PLATFORM_AUDIT_RETENTION_DAYS sets the default of prune', async () => {
  const short = await freshTarget({ PLATFORM_AUDIT_RETENTION_DAYS: '30' })
  try {
    assert.deepEqual((await short.manage('POST', '/admin/audit/prune')).body, {
      deleted: 0,
      deleted_auth_events: 0,
      days: 30,
    })
  } finally {
    await short.stop()
  }
})

test('3 §4 stats count projects, users, tokens and audit entries', async () => {
  const stats = async () => (await it.manage('GET', '/admin/stats')).body
  const before = await stats()
  assert.deepEqual(Object.keys(before).sort(), [
    'active_projects',
    'active_tokens',
    'audit_entries',
    'platform_users',
    'projects',
    'suspended_projects',
  ])
  const [one, two, three] = [await createProject(it), await createProject(it), await createProject(it)]
  await it.manage('POST', `/projects/${two.id}/suspend`)
  await it.manage('DELETE', `/projects/${three.id}`)
  const user = await createUser(it, 'viewer')
  const [kept, revoked] = [await mintToken(it, 'read'), await mintToken(it, 'read')]
  await it.manage('DELETE', `/platform/tokens/${revoked.id}`)
  const end = Date.now() + 10_000
  const expiring = await mintToken(it, 'read', { expires_at: new Date(end).toISOString() })
  await sleep(end + 100 - Date.now())

  const now = await stats()
  const grown = (name: string) => now[name] - before[name]
  assert.deepEqual(
    {
      projects: grown('projects'),
      active: grown('active_projects'),
      suspended: grown('suspended_projects'),
      users: grown('platform_users'),
      tokens: grown('active_tokens'),
    },
    { projects: 2, active: 1, suspended: 1, users: 1, tokens: 1 },
    `${one.id} ${kept.id} ${user.id} ${expiring.id}`,
  )
  assert.ok(grown('audit_entries') >= 8)
})

test('3 §6, case 45: no secret ever issued or sent is in the audit log', async () => {
  const secret = unique('hunter2')
  const project = await createProject(it, { settings: { smtp: { host: 'mail.test', password: secret } } })
  const keys = (await it.manage('POST', `/projects/${project.id}/rotate/api-keys`)).body
  const { jwt_secret } = (await it.manage('POST', `/projects/${project.id}/rotate/jwt`)).body
  await it.manage('GET', `/projects/${project.id}/keys/service-role`)
  const pat = await mintToken(it, 'admin')
  await it.manage('DELETE', `/platform/tokens/${pat.id}`)
  const user = await createUser(it)
  const session = await sessionOf(it, user)
  const newPassword = unique('new password')
  await it.manage('PATCH', `/admin/users/${user.id}`, { password: newPassword })
  const wrongPassword = unique('wrong password')
  await login(it, { email: user.email, password: wrongPassword })
  await it.call('GET', `/v1/whoami/${project.id}`, { apikey: keys.anon_key, token: userJwt({ jwt_secret }) })
  await sleep(200)

  const secrets = [
    secret,
    project.service_role_key,
    project.jwt_secret,
    keys.service_role_key,
    jwt_secret,
    pat.token,
    user.password,
    session,
    newPassword,
    wrongPassword,
    it.adminToken,
  ]
  const views = [
    await exported(),
    await exported('format=csv'),
    await it.manage('GET', '/admin/audit?limit=100'),
  ]
  for (const { status, text } of views) {
    assert.equal(status, 200)
    for (const each of secrets) assert.ok(!text.includes(each))
  }
})
