// Row-level security through the management routes: switches, policies, and the test that says who sees what.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let id: string
const ann = '00000000-0000-4000-8000-00000000000a'
const bob = '00000000-0000-4000-8000-00000000000b'

before(async () => {
  platform = await startPlatform()
  id = (await platform.createProject()).id
  await asOwner(`
    create table notes (id int primary key, owner uuid default auth.uid(), body text, is_public boolean not null default false);
    insert into notes values (1, '${ann}', 'of ann', false), (2, '${bob}', 'of bob', false), (3, '${bob}', 'shown', true);
    create table members (team int, person uuid);
    create table teams (id int primary key, name text);
    insert into teams values (1, 'red'), (2, 'blue'); insert into members values (1, '${ann}')`)
})
after(() => platform.stop())

const call = (method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Reply> =>
  platform.call(method, `/api/v1/projects/${id}/rls${path}`, {
    token: platform.adminToken,
    ...(body !== undefined && { body }),
    ...options,
  })
async function asOwner(text: string) {
  const ref = await platform.refOf(id)
  return platform.app.databases.asOwner({ ref }, session => session.script(text))
}
const policy = async (table: string, body: object) => {
  const reply = await call('POST', `/tables/${encodeURIComponent(table)}/policies`, body)
  assert.equal(reply.status, 201, JSON.stringify(reply.body))
  return reply.body
}
const tried = async (body: object) => {
  const reply = await call('POST', '/test', body)
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
  return reply.body
}
const refusal = ({ status, body }: Reply) => [status, body?.error?.code]
const allowedIds = (reply: any) =>
  reply.rows.filter((each: any) => each.allowed).map((each: any) => each.row.id)
const contents = async () => {
  const ref = await platform.refOf(id)
  return platform.app.databases.asOwner({ ref }, session =>
    session.rows(sql`select * from public.notes order by id`),
  )
}

test('the status shows every table of the schema with its flags and number of policies', async () => {
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
  assert.deepEqual(refusal(await call('GET', '/status?schema=nope')), [404, 'schema_not_found'])
})

test('disabling opens the table and touches nothing else; enabling closes it again', async () => {
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
  assert.deepEqual(allowedIds(await tried({ table: 'door', role: 'anon' })), [1])
  const on = await call('POST', '/tables/door/enable')
  assert.deepEqual(on.body, {
    schema: 'public',
    table: 'door',
    enabled: true,
    forced: false,
    policy_count: 1,
  })
  assert.deepEqual(allowedIds(await tried({ table: 'door', role: 'anon' })), [])
})

test('policies are created in any case, listed, and dropped', async () => {
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
  assert.deepEqual(refusal(again), [409, 'already_exists'])
  const { body } = await call('GET', '/tables/notes/policies')
  assert.deepEqual(
    [body.policies.map((each: any) => each.name), body.total],
    [['own', 'public ones', 'short'], 3],
  )
  await policy('teams', { name: 'odd "name"; --', command: 'DELETE', using: 'true' })
  const path = `/tables/teams/policies/${encodeURIComponent('odd "name"; --')}`
  assert.equal((await call('DELETE', path)).status, 204)
  assert.deepEqual(refusal(await call('DELETE', path)), [404, 'policy_not_found'])
  const near = await call('DELETE', '/tables/notes/policies/owm')
  assert.deepEqual(refusal(near), [404, 'policy_not_found'])
  assert.match(near.body.error.message, /Perhaps you meant "own"/)
})

test('a policy that makes no sense is refused with a sentence that says what to give', async () => {
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
    assert.deepEqual(refusal(reply), [400, 'invalid_request'], JSON.stringify([body, reply.body]))
    assert.match(reply.body.error.message, message)
  }
  assert.equal((await call('GET', '/tables/teams/policies')).body.total, 0)
})

test('case 2: an expression is one expression of the owner’s, whatever it says', async () => {
  const cases: [string, number][] = [
    ['true); drop table notes; --', 400],
    ['true; drop table notes', 400],
    ['true) with check (true', 400],
    ["copy notes to program 'id'", 400],
    ['set role postgres', 400],
    ['owner = nobody', 400],
    ['body', 400],
  ]
  for (const [using, status] of cases) {
    const reply = await call('POST', '/tables/teams/policies', { name: 'evil', command: 'ALL', using })
    assert.equal(reply.status, status, JSON.stringify([using, reply.body]))
    assert.equal(reply.body.error.code, 'sql_error')
  }
  // Written by the owner, run as whoever reads: it gives nobody more than they have.
  await asOwner('create table reach (id int); insert into reach values (1)')
  await policy('reach', {
    name: 'file',
    command: 'SELECT',
    using: "pg_read_file('/etc/passwd') <> ''",
    roles: ['anon'],
  })
  await policy('reach', {
    name: 'role',
    command: 'SELECT',
    using: "set_config('role', 'postgres', true) <> ''",
    roles: ['authenticated'],
  })
  const file = await tried({ table: 'reach', role: 'anon' })
  assert.deepEqual([file.error.code, allowedIds(file)], ['42501', []])
  assert.match(file.rows[0].verdicts[0].error, /permission denied/)
  const role = await tried({ table: 'reach', role: 'authenticated' })
  assert.deepEqual([role.error.code, allowedIds(role)], ['42501', []])
})

test('the test shows the rows a role sees, those it does not, and what each policy says to them', async () => {
  const anon = await tried({ table: 'notes', role: 'anon' })
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
  const hers = await tried({ table: 'notes', role: 'authenticated', user_id: ann })
  assert.deepEqual(allowedIds(hers), [1, 3])
  const first = hers.rows.find((each: any) => each.row.id === 1)
  assert.deepEqual(
    first.verdicts.map((one: any) => [one.policy, one.using, one.with_check]),
    [
      ['own', true, null],
      ['public ones', false, null],
      ['short', true, null],
    ],
  )
  assert.deepEqual(hers.claims, { role: 'authenticated', sub: ann })
  const nobody = await tried({ table: 'notes', role: 'authenticated' })
  assert.deepEqual([allowedIds(nobody), nobody.user_id], [[3], null])
  const service = await tried({ table: 'notes', role: 'service_role' })
  assert.deepEqual([allowedIds(service), service.bypasses_rls, service.policies], [[1, 2, 3], true, []])
})

test('a policy that looks into other tables sees them as the role does, not as the owner', async () => {
  await policy('teams', {
    name: 'mine',
    command: 'SELECT',
    using: 'exists (select 1 from members m where m.team = teams.id and m.person = auth.uid())',
  })
  const blind = await tried({ table: 'teams', role: 'authenticated', user_id: ann })
  assert.deepEqual(allowedIds(blind), [], 'members has no policy: she does not see her own membership')
  assert.deepEqual(
    blind.rows.map((each: any) => each.verdicts[0].using),
    [false, false],
  )
  await policy('members', { name: 'own', command: 'SELECT', using: 'person = auth.uid()' })
  const seeing = await tried({ table: 'teams', role: 'authenticated', user_id: ann })
  assert.deepEqual(allowedIds(seeing), [1])
  assert.deepEqual(
    seeing.rows.map((each: any) => [each.row.id, each.verdicts[0].using]),
    [
      [1, true],
      [2, false],
    ],
  )
})

test('claims reach the policies, but role and sub are those of the test', async () => {
  await asOwner(`create table plans (id int, plan text); insert into plans values (1, 'gold'), (2, 'free')`)
  await policy('plans', { name: 'plan', command: 'SELECT', using: `plan = auth.jwt() ->> 'plan'` })
  const gold = await tried({
    table: 'plans',
    role: 'authenticated',
    user_id: bob,
    claims: { plan: 'gold', role: 'service_role', sub: ann },
  })
  assert.deepEqual([allowedIds(gold), gold.claims], [[1], { plan: 'gold', role: 'authenticated', sub: bob }])
})

test('an insert is really tried, with the defaults it would get, and leaves nothing', async () => {
  const before = await contents()
  const insert = { table: 'notes', role: 'authenticated', user_id: ann, command: 'insert' }
  const fine = await tried({ ...insert, row: { id: 9, body: 'new' } })
  assert.deepEqual([fine.rows[0].allowed, fine.rows[0].error, fine.rolled_back], [true, null, true])
  assert.deepEqual(fine.rows[0].row, { id: 9, owner: ann, body: 'new', is_public: false })
  assert.deepEqual(
    fine.rows[0].verdicts.map((one: any) => [one.policy, one.using, one.with_check]),
    [
      ['own', null, true],
      ['short', null, true],
    ],
  )
  const stolen = await tried({ ...insert, row: { id: 9, body: 'new', owner: bob } })
  assert.equal(stolen.rows[0].allowed, false)
  assert.deepEqual([stolen.rows[0].error.code, stolen.rows[0].verdicts[0].with_check], ['42501', false])
  assert.match(stolen.rows[0].error.message, /row-level security policy/)
  const long = await tried({ ...insert, row: { id: 9, body: 'much too long' } })
  assert.deepEqual(
    long.rows[0].verdicts.map((one: any) => one.with_check),
    [true, false],
  )
  assert.equal(long.rows[0].allowed, false)
  const taken = await tried({ ...insert, row: { id: 1, body: 'twice' } })
  assert.equal(taken.rows[0].error.code, '23505')
  const empty = await tried({ ...insert, role: 'service_role', row: {} })
  assert.equal(empty.rows[0].error.code, '23502')
  assert.deepEqual(await contents(), before)
})

test('updates and deletions are tried row by row, and leave everything as it was', async () => {
  const before = await contents()
  const hers = { table: 'notes', role: 'authenticated', user_id: ann }
  const change = await tried({ ...hers, command: 'UPDATE', row: { body: 'changed' } })
  assert.deepEqual(allowedIds(change), [1])
  assert.equal(change.rows.length, 3)
  assert.equal(change.rows[0].row.body, 'of ann', 'the row as it is')
  const given = await tried({ ...hers, command: 'UPDATE', row: { owner: bob } })
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
  const gone = await tried({ ...hers, command: 'DELETE' })
  assert.deepEqual(allowedIds(gone), [1])
  assert.deepEqual(allowedIds(await tried({ ...hers, role: 'anon', command: 'DELETE' })), [])
  assert.deepEqual(
    allowedIds(await tried({ table: 'notes', role: 'service_role', command: 'DELETE' })),
    [1, 2, 3],
  )
  assert.deepEqual(await contents(), before)
})

test('nothing a trigger or policy does during a test remains', async () => {
  await asOwner(`create table trail (at timestamptz default clock_timestamp());
    create table watched (id int);  insert into watched values (1);
    alter table trail disable row level security;
    create function note() returns boolean language plpgsql volatile as $$ begin insert into trail default values; return true; end $$;
    create function note_row() returns trigger language plpgsql as $$ begin perform note(); return new; end $$;
    create trigger t before insert or update on watched for each row execute function note_row()`)
  await policy('watched', { name: 'noting', command: 'ALL', using: 'note()', with_check: 'note()' })
  for (const extra of [
    {},
    { command: 'INSERT', row: { id: 2 } },
    { command: 'UPDATE', row: { id: 3 } },
    { command: 'DELETE' },
  ]) {
    const reply = await tried({ table: 'watched', role: 'anon', ...extra })
    assert.deepEqual(
      reply.rows.map((each: any) => each.allowed),
      [true],
    )
  }
  const ref = await platform.refOf(id)
  const [count] = await platform.app.databases.asOwner({ ref }, session =>
    session.rows<{ trail: number; watched: number }>(sql`
      select (select count(*)::int from public.trail) as trail, (select count(*)::int from public.watched) as watched`),
  )
  assert.deepEqual(count, { trail: 0, watched: 1 })
})

test('a policy that raises is told as its error, and the others still have their say', async () => {
  await asOwner('create table brittle (id int, key text); insert into brittle values (1, $$x$$)')
  await policy('brittle', { name: 'a breaks', command: 'SELECT', using: 'key::int > 0' })
  await policy('brittle', { name: 'b works', command: 'SELECT', using: 'id > 5' })
  const reply = await tried({ table: 'brittle', role: 'anon' })
  assert.equal(reply.error.code, '22P02')
  assert.deepEqual(
    reply.rows[0].verdicts.map((one: any) => [one.policy, one.using, one.error === null]),
    [
      ['a breaks', null, false],
      ['b works', false, true],
    ],
  )
})

test('names of any kind, partitions, and a column called like our alias are no obstacle', async () => {
  await asOwner(`create table "we""ird; t" ("Id" int, whole int, value int, place int, row int);
    insert into "we""ird; t" values (1, 2, 3, 4, 5), (2, 2, 3, 4, 5);
    create table parts (id int) partition by list (id); create table parts1 partition of parts for values in (1);
    create table parts2 partition of parts for values in (2); insert into parts values (1), (2)`)
  await policy('we"ird; t', {
    name: 'p',
    command: 'ALL',
    using: '"Id" = 1 and whole = 2 and value = 3 and place = 4 and row = 5',
  })
  const odd = await tried({ table: 'we"ird; t', role: 'anon' })
  assert.deepEqual(
    odd.rows.map((each: any) => [each.row.Id, each.allowed, each.verdicts[0].using]),
    [
      [1, true, true],
      [2, false, false],
    ],
  )
  const set = await tried({ table: 'we"ird; t', role: 'anon', command: 'UPDATE', row: { whole: 2 } })
  assert.deepEqual(
    set.rows.map((each: any) => each.allowed),
    [true, false],
  )
  await policy('parts', { name: 'p', command: 'SELECT', using: 'id = 2' })
  const parts = await tried({ table: 'parts', role: 'anon' })
  assert.deepEqual(
    parts.rows.map((each: any) => [each.row.id, each.allowed]),
    [
      [2, true],
      [1, false],
    ],
  )
})

test('numbers beyond those of JavaScript are judged by their real value', async () => {
  await asOwner(
    'create table large (n bigint); insert into large values (9007199254740993), (9007199254740992)',
  )
  await policy('large', { name: 'one', command: 'SELECT', using: 'n = 9007199254740993' })
  const reply = await tried({ table: 'large', role: 'anon' })
  assert.deepEqual(
    reply.rows.map((each: any) => [each.allowed, each.verdicts[0].using]),
    [
      [true, true],
      [false, false],
    ],
  )
})

test('a forced table hides rows from the owner’s sample, and the truth stays the truth', async () => {
  await asOwner(`create table strict (id int); insert into strict values (1), (2);
    alter table strict force row level security; create policy one on strict using (id = 1) with check (id < 3)`)
  const reply = await tried({ table: 'strict', role: 'anon' })
  assert.deepEqual(
    reply.rows.map((each: any) => [each.row.id, each.allowed]),
    [[1, true]],
  )
  const insert = { table: 'strict', role: 'anon', command: 'INSERT' }
  assert.equal((await tried({ ...insert, row: { id: 2 } })).rows[0].allowed, true)
  const refused = (await tried({ ...insert, row: { id: 3 } })).rows[0]
  assert.deepEqual([refused.allowed, refused.verdicts[0].with_check], [false, false])
})

test('what a role has no grant for is told as the error it would get', async () => {
  await asOwner(
    'create table ungranted (id int); insert into ungranted values (1); revoke all on ungranted from anon',
  )
  const reply = await tried({ table: 'ungranted', role: 'anon' })
  assert.deepEqual([reply.error.code, allowedIds(reply)], ['42501', []])
  assert.match(reply.error.message, /permission denied for table ungranted/)
})

test('a request that cannot be meant so is refused before anything runs', async () => {
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
  assert.deepEqual(allowedIds(await tried({ table: 'notes', role: 'service_role', limit: 2 })), [1, 2])
})

test('case 13: a view has no policies of its own, and says so', async () => {
  for (const path of ['/tables/seen/enable', '/tables/seen/disable']) {
    const reply = await call('POST', path)
    assert.deepEqual(refusal(reply), [400, 'invalid_request'])
    assert.match(reply.body.error.message, /view/)
  }
})

test('the platform’s schemas are not changed here; an unknown table is suggested', async () => {
  for (const [method, path, body] of [
    ['POST', '/tables/seen/enable?schema=platform', undefined],
    ['POST', '/tables/seen/disable?schema=platform', undefined],
    ['POST', '/tables/seen/policies?schema=auth', { name: 'x', using: 'true' }],
    ['DELETE', '/tables/seen/policies/x?schema=storage', undefined],
  ] as const)
    assert.deepEqual(refusal(await call(method, path, body)), [403, 'schema_reserved'])
  const near = await call('POST', '/tables/nots/enable')
  assert.deepEqual(refusal(near), [404, 'table_not_found'])
  assert.match(near.body.error.message, /Perhaps you meant "notes"/)
})

test('reads need read scope, changes and tests admin scope; each is in the audit', async () => {
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
    assert.deepEqual(refusal(await call(method, path, body, { token })), [403, 'insufficient_scope'])
  await call('POST', '/tables/notes/enable')
  await policy('notes', { name: 'passing', command: 'SELECT', using: 'false' })
  await call('DELETE', '/tables/notes/policies/passing')
  await tried({ table: 'notes', role: 'anon' })
  const { entries } = await platform.admin.listAudit({ query: { project_id: id, limit: 4 } })
  assert.deepEqual(
    entries.map(({ action }) => action),
    ['rls.tested', 'rls.policy_dropped', 'rls.policy_created', 'rls.enabled'],
  )
})

test('nothing of the above left a 500 in the log', () => {
  assert.deepEqual(
    platform.logged.filter(line => /"status":5\d\d|request failed/.test(line)),
    [],
  )
})
