// 3 §4 "Secrets".
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, type CreatedProject, createProject, mintToken, someId, uuid } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it)
})
after(() => it.stop())

const call = (method: string, path = '', body?: unknown, token = it.adminToken): Promise<Reply> =>
  it.call(method, `/api/v1/projects/${project.id}/secrets${path}`, { token, body })
const names = async () => (await call('GET')).body.secrets.map(({ name }: { name: string }) => name)

test('3 §4 a secret is created and updated by name, and its value is never returned', async () => {
  const made = await call('POST', '', { name: 'API_KEY', value: 'first-value' })
  assert.equal(made.status, 201, made.text)
  assert.deepEqual(Object.keys(made.body), ['id', 'name', 'created_at', 'updated_at'])
  assert.match(made.body.id, uuid)
  const again = await call('POST', '', { name: 'API_KEY', value: 'second-value' })
  assert.deepEqual([again.body.id, again.body.created_at], [made.body.id, made.body.created_at])
  const updated = await call('PUT', '/API_KEY', { value: 'third-value' })
  assert.deepEqual([updated.status, updated.body.id], [200, made.body.id])
  const listed = await call('GET')
  assert.deepEqual(listed.body, { secrets: [updated.body], total: 1, limit: 50, offset: 0 })
  for (const { text } of [made, again, updated, listed]) assert.doesNotMatch(text, /value/)
})

test('3 §4 a rotation returns the new value once', async () => {
  await call('POST', '', { name: 'TO_ROTATE', value: 'old' })
  const [first, second] = [await call('POST', '/TO_ROTATE/rotate'), await call('POST', '/TO_ROTATE/rotate')]
  assert.equal(first.status, 200, first.text)
  assert.match(first.body.value, /^[\w-]{43}$/)
  assert.notEqual(first.body.value, second.body.value)
  assert.doesNotMatch((await call('GET')).text, new RegExp(second.body.value))
})

test('3 §4 a secret is deleted by name or id', async () => {
  const { body } = await call('POST', '', { name: 'BY_ID', value: 'x' })
  await call('POST', '', { name: 'BY_NAME', value: 'x' })
  assert.equal((await call('DELETE', `/${body.id}`)).status, 204)
  assert.equal((await call('DELETE', '/BY_NAME')).status, 204)
  assert.deepEqual(
    (await names()).filter((name: string) => name.startsWith('BY_')),
    [],
  )
})

test('3 §4 an absent secret is 404', async () => {
  assertManagementError(await call('PUT', '/ABSENT', { value: 'x' }), 'secret_not_found')
  assertManagementError(await call('POST', '/ABSENT/rotate'), 'secret_not_found')
  assertManagementError(await call('DELETE', '/ABSENT'), 'secret_not_found')
  assertManagementError(await call('DELETE', `/${someId}`), 'secret_not_found')
  assert.ok(!(await names()).includes('ABSENT'))
})

test('Issue: names are validated, and prefixes of the platform are reserved', async () => {
  for (const name of ['', '1A', 'A-B', 'A B', 'Ä', 'A'.repeat(129), 'A\n', 'A=B'])
    assertManagementError(await call('POST', '', { name, value: 'x' }), 'invalid_request')
  for (const name of ['PLATFORM_A', 'SUPABASE_URL', 'DENO_DIR', 'supabase_url'])
    assertManagementError(await call('POST', '', { name, value: 'x' }), 'invalid_request')
  for (const name of ['_', 'a1', 'A'.repeat(128), 'PLATFORM'])
    assert.equal((await call('POST', '', { name, value: '' })).status, 201, name)
})

test('Clarification: a value has at most 64 KiB, and a project 200 secrets', async () => {
  const own = await createProject(it)
  const save = (name: string, value = 'x') =>
    it.manage('POST', `/projects/${own.id}/secrets`, { name, value })
  assert.equal((await save('LONG', 'x'.repeat(65_536))).status, 201)
  assertManagementError(await save('LONG', 'x'.repeat(65_537)), 'invalid_request')
  assertManagementError(await save('LONG', 'ä'.repeat(32_769)), 'invalid_request')
  for (let number = 1; number < 199; number++) assert.equal((await save(`S${number}`)).status, 201)
  const last = await Promise.all(['A', 'B', 'C'].map(name => save(name)))
  assert.deepEqual(last.map(({ status }) => status).sort(), [201, 409, 409])
  assertManagementError(await save('ONE_MORE'), 'too_many_secrets')
  assert.equal((await save('LONG', 'changed')).status, 201)
})

test('3 §4 the scopes: reading lists, deploying saves, the rest needs admin', async () => {
  const [read, deploy] = [(await mintToken(it, 'read')).token, (await mintToken(it, 'deploy')).token]
  assert.equal((await call('GET', '', undefined, read)).status, 200)
  assertNeedsScope(await call('POST', '', { name: 'SCOPED', value: 'x' }, read), 'deploy')
  assert.equal((await call('POST', '', { name: 'SCOPED', value: 'x' }, deploy)).status, 201)
  assertNeedsScope(await call('PUT', '/SCOPED', { value: 'y' }, deploy), 'admin')
  assertNeedsScope(await call('POST', '/SCOPED/rotate', undefined, deploy), 'admin')
  assertNeedsScope(await call('DELETE', '/SCOPED', undefined, deploy), 'admin')
})

test('Issue: every change is audited, without the value', async () => {
  const replies = {
    'secret.saved': await call('POST', '', { name: 'AUDITED', value: 'hidden-1' }),
    'secret.updated': await call('PUT', '/AUDITED', { value: 'hidden-2' }),
    'secret.rotated': await call('POST', '/AUDITED/rotate'),
    'secret.deleted': await call('DELETE', '/AUDITED'),
  }
  const { value } = replies['secret.rotated'].body
  for (const [action, reply] of Object.entries(replies)) {
    const entry = await auditOf(it, action, reply)
    assert.equal(entry.project_id, project.id)
    assert.doesNotMatch(JSON.stringify(entry), new RegExp(`hidden-|${value}`))
  }
})

test('3 §4 secrets belong to a project', async () => {
  const other = await createProject(it)
  const theirs = await it.manage('POST', `/projects/${other.id}/secrets`, { name: 'THEIRS', value: 'x' })
  assert.ok(!(await names()).includes('THEIRS'))
  assertManagementError(await call('DELETE', `/${theirs.body.id}`), 'secret_not_found')
  assertManagementError(await call('PUT', '/THEIRS', { value: 'y' }), 'secret_not_found')
})
