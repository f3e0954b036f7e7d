// Management routes for row-level security: status, switches, policies, the test of a role's access, and scopes.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { TestPlatform } from './harness.ts'
import { allowedIds, ann, bob, rlsProject, statusAndCode } from './rls-project.ts'

const { stage, call, asOwner, policy, simulate } = rlsProject()
let platform: TestPlatform
let id: string
before(() => {
  ;({ platform, id } = stage)
})

const contents = async () => {
  const ref = await platform.refOf(id)
  return platform.app.databases.asOwner({ ref }, session =>
    session.rows(sql`select * from public.notes order by id`),
  )
}

test('rls: the status lists every table of the schema with its flags and number of policies', async () => {
  await asOwner(
    'create table forced (id int); alter table forced force row level security; create view seen as select 1 as one',
  )
  const { body } = await call('GET', '/status')
  assert.deepEqual(body.tables, [
    { schema: 'public', table: 'forced', enabled: true, forced: true, policy_count: 0 },
    { schema: 'public', table: 'members', enabled: true, forced: false, policy_count: 0 },
    { schema: 'public', table: 'notes', enabled: true, forced: false, policy_count: 0 },
    { schema: 'public', table: 'teams', enabled: true, forced: false, policy_count: 0 },
  ])
  assert.deepEqual([body.total, body.limit, body.offset], [4, 50, 0])
  const page = await call('GET', '/status?limit=1&offset=2')
  assert.deepEqual([page.body.tables.length, page.body.tables[0].table, page.body.total], [1, 'notes', 4])
  assert.deepEqual(statusAndCode(await call('GET', '/status?schema=nope')), [404, 'schema_not_found'])
})

test('rls: disabling opens the table and changes nothing else, and enabling closes it again', async () => {
  await asOwner('create table door (id int); insert into door values (1)')
  await policy('door', { name: 'never', command: 'select', using: 'false' })
  const off = await call('POST', '/tables/door/disable')
  assert.deepEqual(off.body, {
    schema: 'public',
    table: 'door',
    enabled: false,
    forced: false,
    policy_count: 1,
  })
  assert.deepEqual(allowedIds(await simulate({ table: 'door', role: 'anon' })), [1])
  const on = await call('POST', '/tables/door/enable')
  assert.deepEqual(on.body, {
    schema: 'public',
    table: 'door',
    enabled: true,
    forced: false,
    policy_count: 1,
  })
  assert.deepEqual(allowedIds(await simulate({ table: 'door', role: 'anon' })), [])
})

test('rls: policies are created, listed and dropped', async () => {
  assert.deepEqual(await policy('notes', { name: 'public ones', command: 'select', using: 'is_public' }), {
    schema: 'public',
    table: 'notes',
    name: 'public ones',
    command: 'SELECT',
    permissive: true,
    roles: ['public'],
    using: 'is_public',
    with_check: null,
  })
  const own = await policy('notes', {
    name: 'own',
    command: 'All',
    using: 'owner = auth.uid()',
    with_check: "owner = auth.uid() and body <> ''",
    roles: ['authenticated'],
  })
  assert.deepEqual([own.command, own.roles, own.using], ['ALL', ['authenticated'], '(owner = auth.uid())'])
  const strict = await policy('notes', {
    name: 'short',
    using: 'true',
    with_check: 'char_length(body) < 10',
    permissive: false,
  })
  assert.deepEqual([strict.command, strict.permissive], ['ALL', false])
  const again = await call('POST', '/tables/notes/policies', { name: 'own', command: 'ALL', using: 'true' })
  assert.deepEqual(statusAndCode(again), [409, 'already_exists'])
  const { body } = await call('GET', '/tables/notes/policies')
  assert.deepEqual(
    [body.policies.map((each: any) => each.name), body.total],
    [['own', 'public ones', 'short'], 3],
  )
  await policy('teams', { name: 'odd "name"; --', command: 'DELETE', using: 'true' })
  const path = `/tables/teams/policies/${encodeURIComponent('odd "name"; --')}`
  assert.equal((await call('DELETE', path)).status, 204)
  assert.deepEqual(statusAndCode(await call('DELETE', path)), [404, 'policy_not_found'])
  const near = await call('DELETE', '/tables/notes/policies/owm')
  assert.deepEqual(statusAndCode(near), [404, 'policy_not_found'])
  assert.match(near.body.error.message, /Perhaps you meant "own"/)
})

test('rls: an invalid policy is rejected with a message that names what is missing', async () => {
  const cases: [object, RegExp][] = [
    [{ name: 'x', command: 'INSERT', using: 'true' }, /give "with_check" instead of "using"/],
    [{ name: 'x', command: 'SELECT', with_check: 'true' }, /give "using" instead of "with_check"/],
    [{ name: 'x', command: 'delete', using: 'true', with_check: 'true' }, /DELETE.*"using"/],
    [{ name: 'x', command: 'INSERT' }, /"with_check" says which rows/],
    [{ name: 'x' }, /"using" says which rows/],
    [{ name: 'x', command: 'TRUNCATE', using: 'true' }, /one of ALL, SELECT, INSERT, UPDATE, DELETE/],
    [{ name: 'x', using: 'true', roles: ['postgres'] }, /roles/],
    [{ name: 'x', using: 'true', usin: 'true' }, /unknown field "usin"/],
    [{ name: 'é'.repeat(40), using: 'true' }, /80 bytes/],
  ]
  for (const [body, message] of cases) {
    const reply = await call('POST', '/tables/teams/policies', body)
    assert.deepEqual(statusAndCode(reply), [400, 'invalid_request'], JSON.stringify([body, reply.body]))
    assert.match(reply.body.error.message, message)
  }
  assert.equal((await call('GET', '/tables/teams/policies')).body.total, 0)
})

test('rls: the test returns visible rows, hidden rows and the verdict of each policy', async () => {
  const anon = await simulate({ table: 'notes', role: 'anon' })
  assert.deepEqual(allowedIds(anon), [3])
  assert.deepEqual(
    anon.policies.map((each: any) => each.name),
    ['public ones', 'short'],
  )
  assert.deepEqual(
    anon.rows.map((each: any) => [
      each.row.id,
      each.allowed,
      each.verdicts.map((one: any) => [one.policy, one.using]),
    ]),
    [
      [
        3,
        true,
        [
          ['public ones', true],
          ['short', true],
        ],
      ],
      [
        1,
        false,
        [
          ['public ones', false],
          ['short', true],
        ],
      ],
      [
        2,
        false,
        [
          ['public ones', false],
          ['short', true],
        ],
      ],
    ],
  )
  const asAnn = await simulate({ table: 'notes', role: 'authenticated', user_id: ann })
  assert.deepEqual(allowedIds(asAnn), [1, 3])
  const first = asAnn.rows.find((each: any) => each.row.id === 1)
  assert.deepEqual(
    first.verdicts.map((one: any) => [one.policy, one.using, one.with_check]),
    [
      ['own', true, null],
      ['public ones', false, null],
      ['short', true, null],
    ],
  )
  assert.deepEqual(asAnn.claims, { role: 'authenticated', sub: ann })
  const nobody = await simulate({ table: 'notes', role: 'authenticated' })
  assert.deepEqual([allowedIds(nobody), nobody.user_id], [[3], null])
  const service = await simulate({ table: 'notes', role: 'service_role' })
  assert.deepEqual([allowedIds(service), service.bypasses_rls, service.policies], [[1, 2, 3], true, []])
})

test('rls: the test executes an insert with its defaults and rolls it back', async () => {
  const before = await contents()
  const insert = { table: 'notes', role: 'authenticated', user_id: ann, command: 'insert' }
  const fine = await simulate({ ...insert, row: { id: 9, body: 'new' } })
  assert.deepEqual([fine.rows[0].allowed, fine.rows[0].error, fine.rolled_back], [true, null, true])
  assert.deepEqual(fine.rows[0].row, { id: 9, owner: ann, body: 'new', is_public: false })
  assert.deepEqual(
    fine.rows[0].verdicts.map((one: any) => [one.policy, one.using, one.with_check]),
    [
      ['own', null, true],
      ['short', null, true],
    ],
  )
  const stolen = await simulate({ ...insert, row: { id: 9, body: 'new', owner: bob } })
  assert.equal(stolen.rows[0].allowed, false)
  assert.deepEqual([stolen.rows[0].error.code, stolen.rows[0].verdicts[0].with_check], ['42501', false])
  assert.match(stolen.rows[0].error.message, /row-level security policy/)
  const long = await simulate({ ...insert, row: { id: 9, body: 'much too long' } })
  assert.deepEqual(
    long.rows[0].verdicts.map((one: any) => one.with_check),
    [true, false],
  )
  assert.equal(long.rows[0].allowed, false)
  const taken = await simulate({ ...insert, row: { id: 1, body: 'twice' } })
  assert.equal(taken.rows[0].error.code, '23505')
  const empty = await simulate({ ...insert, role: 'service_role', row: {} })
  assert.equal(empty.rows[0].error.code, '23502')
  assert.deepEqual(await contents(), before)
})

test('rls: the test executes updates and deletes per row and rolls them back', async () => {
  const before = await contents()
  const asAnn = { table: 'notes', role: 'authenticated', user_id: ann }
  const change = await simulate({ ...asAnn, command: 'UPDATE', row: { body: 'changed' } })
  assert.deepEqual(allowedIds(change), [1])
  assert.equal(change.rows.length, 3)
  assert.equal(change.rows[0].row.body, 'of ann', 'the row as it is')
  const given = await simulate({ ...asAnn, command: 'UPDATE', row: { owner: bob } })
  assert.deepEqual(allowedIds(given), [])
  const row = given.rows.find((each: any) => each.row.id === 1)
  assert.equal(row.error.code, '42501')
  assert.deepEqual(
    row.verdicts.map((one: any) => [one.policy, one.using, one.with_check]),
    [
      ['own', true, false],
      ['public ones', false, false],
      ['short', true, true],
    ],
  )
  const gone = await simulate({ ...asAnn, command: 'DELETE' })
  assert.deepEqual(allowedIds(gone), [1])
  assert.deepEqual(allowedIds(await simulate({ ...asAnn, role: 'anon', command: 'DELETE' })), [])
  assert.deepEqual(
    allowedIds(await simulate({ table: 'notes', role: 'service_role', command: 'DELETE' })),
    [1, 2, 3],
  )
  assert.deepEqual(await contents(), before)
})

test('rls: an invalid request is rejected before anything runs', async () => {
  const cases: [object, string][] = [
    [{ table: 'notes', role: 'postgres' }, 'invalid_request'],
    [{ table: 'notes' }, 'invalid_request'],
    [{ table: 'notes', role: 'anon', limit: 0 }, 'invalid_request'],
    [{ table: 'notes', role: 'anon', limit: 101 }, 'invalid_request'],
    [{ table: 'notes', role: 'anon', command: 'TRUNCATE' }, 'invalid_request'],
    [{ table: 'notes', role: 'anon', command: 'INSERT' }, 'invalid_request'],
    [{ table: 'notes', role: 'anon', command: 'UPDATE', row: {} }, 'invalid_request'],
    [{ table: 'notes', role: 'anon', row: { id: 1 } }, 'invalid_request'],
    [{ table: 'notes', role: 'anon', as: 'x' }, 'invalid_request'],
    [{ table: 'seen', role: 'anon' }, 'invalid_request'],
    [{ table: 'noted', role: 'anon' }, 'table_not_found'],
    [{ table: 'notes', role: 'anon', command: 'INSERT', row: { bodi: 'x' } }, 'column_not_found'],
  ]
  for (const [body, code] of cases) {
    const reply = await call('POST', '/test', body)
    assert.equal(reply.body?.error?.code, code, JSON.stringify([body, reply.body]))
  }
  assert.deepEqual(allowedIds(await simulate({ table: 'notes', role: 'service_role', limit: 2 })), [1, 2])
})

test('case 13: a view has no policies, and the error says so', async () => {
  for (const path of ['/tables/seen/enable', '/tables/seen/disable']) {
    const reply = await call('POST', path)
    assert.deepEqual(statusAndCode(reply), [400, 'invalid_request'])
    assert.match(reply.body.error.message, /view/)
  }
})

test('rls: platform schemas are rejected, and an unknown table gets a suggestion', async () => {
  for (const [method, path, body] of [
    ['POST', '/tables/seen/enable?schema=platform', undefined],
    ['POST', '/tables/seen/disable?schema=platform', undefined],
    ['POST', '/tables/seen/policies?schema=auth', { name: 'x', using: 'true' }],
    ['DELETE', '/tables/seen/policies/x?schema=storage', undefined],
  ] as const)
    assert.deepEqual(statusAndCode(await call(method, path, body)), [403, 'schema_reserved'])
  const near = await call('POST', '/tables/nots/enable')
  assert.deepEqual(statusAndCode(near), [404, 'table_not_found'])
  assert.match(near.body.error.message, /Perhaps you meant "notes"/)
})

test('rls: reads need read scope, changes and tests need admin scope and are in the audit log', async () => {
  const { token } = await platform.platform.mintToken({ body: { name: 'deploy', scope: 'deploy' } })
  assert.equal((await call('GET', '/status', undefined, { token })).status, 200)
  assert.equal((await call('GET', '/tables/notes/policies', undefined, { token })).status, 200)
  for (const [method, path, body] of [
    ['POST', '/tables/notes/disable', undefined],
    ['POST', '/tables/notes/enable', undefined],
    ['POST', '/tables/notes/policies', { name: 'x', using: 'true' }],
    ['DELETE', '/tables/notes/policies/own', undefined],
    ['POST', '/test', { table: 'notes', role: 'anon' }],
  ] as const)
    assert.deepEqual(statusAndCode(await call(method, path, body, { token })), [403, 'insufficient_scope'])
  await call('POST', '/tables/notes/enable')
  await policy('notes', { name: 'passing', command: 'SELECT', using: 'false' })
  await call('DELETE', '/tables/notes/policies/passing')
  await simulate({ table: 'notes', role: 'anon' })
  const { entries } = await platform.admin.listAudit({ query: { project_id: id, limit: 4 } })
  assert.deepEqual(
    entries.map(({ action }) => action),
    ['rls.tested', 'rls.policy_dropped', 'rls.policy_created', 'rls.enabled'],
  )
})

test('rls: no request of this file caused a 500', () => {
  assert.deepEqual(
    platform.logged.filter(line => /"status":5\d\d|request failed/.test(line)),
    [],
  )
})
