// 3 §4 "Pooler rules": the connection strings of a project, with and without a pooler and a replica.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, createProject, mintToken, someId } from '../people.ts'
import { freshTarget, type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const reveal = (id: string, token = it.adminToken) =>
  it.call('GET', `/api/v1/projects/${id}/pooler`, { token })

test('3 §4 without a pooler enabled is false, pooled is null, direct is set and read_only is omitted', async () => {
  const { id } = await createProject(it)
  const { status, body } = await reveal(id)
  assert.equal(status, 200)
  assert.deepEqual(Object.keys(body).sort(), ['direct', 'enabled', 'mode', 'pooled', 'project_id'])
  assert.deepEqual([body.project_id, body.enabled, body.pooled], [id, false, null])
  assert.equal(typeof body.mode, 'string')
  const direct = new URL(body.direct)
  assert.match(direct.protocol, /^postgres(ql)?:$/)
  for (const part of [direct.username, direct.password, direct.hostname, direct.pathname.slice(1)])
    assert.notEqual(part, '')
})

test('3 §4 with a pooler pooled has a derived password, and with a replica read_only is set', async () => {
  const configured = await freshTarget({
    PLATFORM_POOLER_URL: 'postgres://pooler.test:6432',
    PLATFORM_REPLICA_URL: 'postgres://replica.test:5433',
  })
  try {
    const { id } = await createProject(configured)
    const { status, body } = await configured.manage('GET', `/projects/${id}/pooler`)
    assert.equal(status, 200)
    assert.deepEqual([body.enabled, body.mode], [true, 'transaction'])
    const [pooled, direct, replica] = [body.pooled, body.direct, body.read_only].map(text => new URL(text))
    assert.deepEqual([pooled!.host, replica!.host], ['pooler.test:6432', 'replica.test:5433'])
    for (const each of [pooled!, replica!])
      assert.deepEqual([each.username, each.pathname], [direct!.username, direct!.pathname])
    assert.ok(decodeURIComponent(pooled!.password).length > 20)
    const again = await configured.manage('GET', `/projects/${id}/pooler`)
    assert.equal(again.body.pooled, body.pooled)
  } finally {
    await configured.stop()
  }
})

test('3 §4 each project has its own connection string', async () => {
  const [a, b] = [await createProject(it), await createProject(it)]
  const [first, second] = [
    new URL((await reveal(a.id)).body.direct),
    new URL((await reveal(b.id)).body.direct),
  ]
  for (const part of ['username', 'password', 'pathname'] as const) assert.notEqual(first[part], second[part])
})

test('3 §4 the reveal needs admin scope and is audited without the secret', async () => {
  const { id } = await createProject(it)
  for (const scope of ['read', 'deploy']) {
    const refused = await reveal(id, (await mintToken(it, scope)).token)
    assertNeedsScope(refused, 'admin')
    assert.ok(!refused.text.includes('postgres'))
  }
  const reply = await reveal(id)
  const entry = await auditOf(it, 'project.connection_strings_revealed', reply)
  assert.equal(entry.project_id, id)
  assert.ok(!JSON.stringify(entry).includes(new URL(reply.body.direct).password))
  assertManagementError(await reveal(someId), 'project_not_found')
})
