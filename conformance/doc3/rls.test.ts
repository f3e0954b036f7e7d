// 3 §4 "Schema, database, RLS": row-level security, its policies, and the simulation.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { auditOf, type CreatedProject, createProject, mintToken } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError, assertNeedsScope, type Reply } from '../wire.ts'

let it: Target
let project: CreatedProject
const ann = '11111111-1111-4111-8111-111111111111'
const bob = '22222222-2222-4222-8222-222222222222'

before(async () => {
  it = await target()
  project = await createProject(it)
  const made = await it.manage('POST', `/projects/${project.id}/schema/tables`, {
    name: 'notes',
    columns: [
      { name: 'id', type: 'int', primary_key: true },
      { name: 'owner', type: 'uuid' },
      { name: 'body', type: 'text' },
    ],
  })
  assert.equal(made.status, 201, made.text)
  // A migration inserts the rows, so that the test does not depend on the data plane.
  const pushed = await it.manage('POST', `/projects/${project.id}/db/push`, {
    migrations: [
      {
        version: '20260101000000',
        name: 'rows',
        sql: `insert into notes values (1, '${ann}', 'of ann'), (2, '${bob}', 'of bob');`,
      },
    ],
  })
  assert.equal(pushed.status, 200, pushed.text)
})
after(() => it.stop())

const call = (method: string, path: string, body?: unknown, token = it.adminToken): Promise<Reply> =>
  it.call(method, `/api/v1/projects/${project.id}/rls${path}`, { token, body })
const tried = async (body: object) => {
  const reply = await call('POST', '/test', { table: 'notes', ...body })
  assert.equal(reply.status, 200, reply.text)
  return reply.body
}
const seen = ({ rows }: any) => rows.filter((each: any) => each.allowed).map((each: any) => each.row.id)

test('3 §4 the status shows per table whether it is enabled and forced', async () => {
  const { status, body } = await call('GET', '/status')
  assert.equal(status, 200)
  const { enabled, forced } = body.tables.find((each: any) => each.table === 'notes')
  assert.deepEqual([enabled, forced], [true, false])
})

test('3 §4 without a policy only service_role sees rows; with RLS disabled all roles do', async () => {
  assert.deepEqual(seen(await tried({ role: 'anon' })), [])
  assert.deepEqual(seen(await tried({ role: 'authenticated', user_id: ann })), [])
  assert.deepEqual(seen(await tried({ role: 'service_role' })), [1, 2])
  assert.equal((await call('POST', '/tables/notes/disable')).body.enabled, false)
  assert.deepEqual(seen(await tried({ role: 'anon' })), [1, 2])
  assert.equal((await call('POST', '/tables/notes/enable')).body.enabled, true)
  assert.deepEqual(seen(await tried({ role: 'anon' })), [])
})

test('3 §4 a policy is created, listed, enforced for reads and writes, and dropped', async () => {
  const made = await call('POST', '/tables/notes/policies', {
    name: 'own notes',
    command: 'ALL',
    using: 'owner = auth.uid()',
    roles: ['authenticated'],
  })
  assert.equal(made.status, 201, made.text)
  const listed = await call('GET', '/tables/notes/policies')
  assert.deepEqual([listed.body.policies, listed.body.total], [[made.body], 1])

  const hers = await tried({ role: 'authenticated', user_id: ann })
  assert.deepEqual(seen(hers), [1])
  assert.deepEqual(
    hers.rows.map(({ row, verdicts }: any) => [
      row.id,
      verdicts.map((each: any) => [each.policy, each.using]),
    ]),
    [
      [1, [['own notes', true]]],
      [2, [['own notes', false]]],
    ],
  )
  assert.deepEqual(seen(await tried({ role: 'anon' })), [])
  const insert = { role: 'authenticated', user_id: ann, command: 'INSERT' }
  assert.equal((await tried({ ...insert, row: { id: 3, owner: ann } })).rows[0].allowed, true)
  assert.equal((await tried({ ...insert, row: { id: 3, owner: bob } })).rows[0].allowed, false)

  assert.equal(
    (await call('DELETE', `/tables/notes/policies/${encodeURIComponent('own notes')}`)).status,
    204,
  )
  assert.deepEqual(seen(await tried({ role: 'authenticated', user_id: ann })), [])
})

test('3 §4 a simulation always rolls back', async () => {
  for (const fields of [
    { command: 'INSERT', row: { id: 9 } },
    { command: 'UPDATE', row: { body: 'changed' } },
    { command: 'DELETE' },
  ]) {
    const { rows, rolled_back } = await tried({ role: 'service_role', ...fields })
    assert.ok(rows.every((each: any) => each.allowed))
    assert.equal(rolled_back, true)
  }
  const { rows } = await tried({ role: 'service_role' })
  assert.deepEqual(
    rows.map(({ row }: any) => [row.id, row.body]),
    [
      [1, 'of ann'],
      [2, 'of bob'],
    ],
  )
})

test('3 §4 a policy can be created for every command, and invalid ones are rejected', async () => {
  for (const [command, expression] of [
    ['SELECT', { using: 'true' }],
    ['insert', { with_check: 'true' }],
    ['Update', { using: 'true', with_check: 'true' }],
    ['DELETE', { using: 'true' }],
    ['ALL', { using: 'true' }],
  ] as const) {
    const reply = await call('POST', '/tables/notes/policies', {
      name: `for ${command}`,
      command,
      ...expression,
    })
    assert.equal(reply.status, 201, reply.text)
    assert.equal(reply.body.command, command.toUpperCase())
    assert.equal((await call('DELETE', `/tables/notes/policies/for%20${command}`)).status, 204)
  }
  const create = (body: object) => call('POST', '/tables/notes/policies', { name: 'p', ...body })
  assertManagementError(await create({ command: 'INSERT', using: 'true' }), 'invalid_request', /with_check/)
  assertManagementError(await create({ command: 'TRUNCATE', using: 'true' }), 'invalid_request')
  assertManagementError(
    await create({ command: 'SELECT', using: 'true); drop table notes; --' }),
    'sql_error',
  )
  assertManagementError(await create({ command: 'SELECT', using: 'nonsense' }), 'sql_error', /nonsense/)
  assertManagementError(await call('DELETE', '/tables/notes/policies/absent'), 'policy_not_found')
  assertManagementError(await call('POST', '/tables/nodes/enable'), 'table_not_found', /"notes"/)
})

test('3 §5.1 reading needs read scope; changing and simulating need admin scope', async () => {
  const { token } = await mintToken(it, 'read')
  const deploy = (await mintToken(it, 'deploy')).token
  assert.equal((await call('GET', '/status', undefined, token)).status, 200)
  assert.equal((await call('GET', '/tables/notes/policies', undefined, token)).status, 200)
  for (const each of [token, deploy]) {
    assertNeedsScope(await call('POST', '/tables/notes/disable', undefined, each), 'admin')
    assertNeedsScope(await call('POST', '/tables/notes/enable', undefined, each), 'admin')
    assertNeedsScope(
      await call('POST', '/tables/notes/policies', { name: 'x', using: 'true' }, each),
      'admin',
    )
    assertNeedsScope(await call('DELETE', '/tables/notes/policies/x', undefined, each), 'admin')
    assertNeedsScope(await call('POST', '/test', { table: 'notes', role: 'anon' }, each), 'admin')
  }
})

test('3 §1 enabling and disabling row-level security is audited', async () => {
  const reply = await call('POST', '/tables/notes/enable')
  const entry = await auditOf(it, 'rls.enabled', reply)
  assert.deepEqual([entry.target, entry.project_id], ['notes', project.id])
})
