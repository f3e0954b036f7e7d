// 1 §4.2, vectors: distances as filters and as order, on a server that has pgvector (npm run test:vector).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from '#test/harness.ts'

let platform: TestPlatform
let project: CreatedProject
let ref: string
before(async () => {
  platform = await startPlatform({ settings: { PLATFORM_RATE_LIMIT_ANON: '0' } })
  project = await platform.createProject()
  ref = await platform.refOf(project.id)
  await asOwner(schema)
  await known('topics')
})
after(() => platform?.stop())

const schema = `
set search_path = public, extensions;
create extension vector with schema extensions;
create table public.topics (id int primary key);
create table public.documents (
  id int primary key,
  topic_id int references public.topics,
  embedding extensions.vector(3),
  secret boolean not null default false
);
insert into public.topics values (1), (2);
insert into public.documents values
  (1, 1, '[1,0,0]'), (2, 1, '[0,1,0]'), (3, 1, '[0.9,0.1,0]'), (4, 1, null), (5, 2, '[-1,0,0]'), (6, 2, '[2,0,0]');
insert into public.documents values (7, 2, '[1,0,0]', true);
create policy everybody on public.topics using (true);
create policy open on public.documents using (not secret) with check (not secret);
create function public.nearest(query extensions.vector, wanted int) returns setof public.documents language sql stable
  as $$ select * from public.documents where embedding is not null order by embedding <-> query limit wanted $$;
`

const asOwner = (script: string) => platform.app.databases.asOwner({ ref }, session => session.script(script))

async function known(table: string): Promise<void> {
  for (const deadline = Date.now() + 30_000; (await get(table)).status === 404; await sleep(20))
    assert.ok(Date.now() < deadline, `the API knows ${table}`)
}

const ask = (method: string, path: string, options: CallOptions = {}): Promise<Reply> =>
  platform.call(method, `/v1/rest/${project.id}/${path}`, { apikey: project.anon_key, ...options })
const get = (path: string, options?: CallOptions) => ask('GET', path, options)

async function ids(query: string, options?: CallOptions): Promise<number[]> {
  const { status, body } = await get(`documents?select=id&${query}`, options)
  assert.equal(status, 200, `${query}: ${JSON.stringify(body)}`)
  return body.map(({ id }: { id: number }) => id)
}

async function assertRefused(query: string): Promise<Reply> {
  const reply = await get(`documents?select=id&${query}`)
  assert.equal(reply.status, 400, `${query}: ${JSON.stringify(reply.body)}`)
  for (const field of ['code', 'message']) assert.notEqual(reply.body[field] ?? '', '', field)
  return reply
}

test('order by distance puts the nearest first, in each metric, and rows without a vector last', async () => {
  assert.deepEqual(await ids('order=embedding.l2.[1,0,0]'), [1, 3, 6, 2, 5, 4])
  assert.deepEqual(await ids('order=embedding.cosine.[1,0,0],id.asc'), [1, 6, 3, 2, 5, 4])
  assert.deepEqual(await ids('order=embedding.ip.[1,0,0]'), [6, 1, 3, 2, 5, 4])
})

test('.desc puts the farthest first', async () => {
  const some = 'embedding=not.is.null'
  assert.deepEqual(await ids(`order=embedding.l2.[1,0,0].desc&${some}`), [5, 2, 6, 3, 1])
  assert.deepEqual(await ids(`order=embedding.cosine.[1,0,0].desc,id.desc&${some}`), [5, 2, 3, 6, 1])
  assert.deepEqual(await ids(`order=embedding.ip.[1,0,0].desc&${some}`), [5, 2, 3, 1, 6])
})

test('a distance as filter keeps the rows that have one', async () => {
  for (const metric of ['l2', 'cosine', 'ip'])
    assert.deepEqual(await ids(`embedding=${metric}.[1,0,0]&order=id`), [1, 2, 3, 5, 6], metric)
})

test('distances go together with other filters, keys, limits and counts', async () => {
  const nearest = 'embedding=l2.[1,0,0]&order=embedding.l2.[1,0,0]'
  assert.deepEqual(await ids(`${nearest}&id=neq.1&limit=2`), [3, 6])
  assert.deepEqual(await ids(`${nearest}&offset=1&limit=2`), [3, 6])
  assert.deepEqual(
    await ids('order=topic_id.desc,embedding.l2.[1,0,0]&embedding=not.is.null'),
    [6, 5, 1, 3, 2],
  )
  assert.deepEqual(await ids('or=(id.eq.2,id.eq.5)&order=embedding.l2.[-1,0,0]'), [5, 2])
  const counted = await get(`documents?select=id&${nearest}&limit=1`, { headers: { prefer: 'count=exact' } })
  assert.equal(counted.headers.get('content-range'), '0-0/5')
})

test('numbers of every spelling are numbers, and spaces do not matter', async () => {
  for (const vector of ['[1.0,0,0]', '[1e0,-0,0.0]', '[%201,%200,%200%20]', '[%2B1,0,0]'])
    assert.deepEqual(await ids(`order=embedding.l2.${vector}&limit=1`), [1], vector)
})

test('related rows are ordered by distance within each parent', async () => {
  const { status, body } = await get(
    'topics?select=id,documents(id)&order=id&documents.order=embedding.l2.[-1,0,0]&documents.embedding=not.is.null',
  )
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(body, [
    { id: 1, documents: [{ id: 2 }, { id: 3 }, { id: 1 }] },
    { id: 2, documents: [{ id: 5 }, { id: 6 }] },
  ])
})

test('row-level security holds: anon never finds what only the service may see', async () => {
  assert.ok(!(await ids('order=embedding.l2.[1,0,0]')).includes(7))
  assert.ok(!(await ids('embedding=l2.[1,0,0]')).includes(7))
  const service = { apikey: project.service_role_key }
  assert.deepEqual(await ids('order=embedding.l2.[1,0,0],id&limit=2', service), [1, 7])
})

test('vectors are written and read as JSON arrays and as text', async () => {
  const body = [
    { id: 20, embedding: [5, 5, 5] },
    { id: 21, embedding: '[6,6,6]' },
  ]
  const made = await ask('POST', 'documents?select=id,embedding', {
    body,
    headers: { prefer: 'return=representation' },
  })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  assert.deepEqual(made.body, [
    { id: 20, embedding: '[5,5,5]' },
    { id: 21, embedding: '[6,6,6]' },
  ])
  const gone = await ask('DELETE', 'documents?id=gte.20&embedding=l2.[5,5,5]')
  assert.equal(gone.status, 204)
  assert.deepEqual(await ids('id=gte.20'), [])
})

test('a function takes a vector and its rows are ordered by distance', async () => {
  const body = { query: [1, 0, 0], wanted: 2 }
  const { status, body: rows } = await ask('POST', 'rpc/nearest?select=id&order=embedding.l2.[2,0,0]', {
    body,
  })
  assert.equal(status, 200, JSON.stringify(rows))
  assert.deepEqual(rows, [{ id: 1 }, { id: 3 }])
})

test('what is no vector is a 400', async () => {
  const malformed = [
    '',
    '[]',
    '1,0,0',
    '[1,0',
    '1,0,0]',
    '[1,,0]',
    '[a,b,c]',
    '[1,0,0',
    '{1,0,0}',
    '[[1,0,0]]',
  ]
  for (const vector of [...malformed, '[NaN,0,0]', '[Infinity,0,0]', '[1e999,0,0]', '[1 0 0]'])
    for (const query of [`embedding=l2.${vector}`, `order=embedding.l2.${vector}`]) await assertRefused(query)
})

test('a vector of other dimensions is a 400 that says so', async () => {
  for (const vector of ['[1,0]', '[1,0,0,0]'])
    for (const query of [`embedding=l2.${vector}`, `order=embedding.cosine.${vector}`]) {
      const { body } = await assertRefused(query)
      assert.match(`${body.message} ${body.details} ${body.hint}`, /dimension/, query)
    }
})

test('an unknown metric is a 400', async () => {
  for (const query of ['order=embedding.l3.[1,0,0]', 'embedding=l3.[1,0,0]']) await assertRefused(query)
})

test('a column that holds no vectors is refused by name', async () => {
  for (const query of ['id=l2.[1,0,0]', 'order=id.l2.[1,0,0]']) {
    const { body } = await assertRefused(query)
    assert.match(body.message, /"id" holds no vectors/)
  }
})

test('the vector is a value, never SQL', async () => {
  const attempts = [
    "[1,0,0]'::vector)is null or true--",
    '[1,0,0])); drop table documents; --',
    "[1,0,0]' limit 0) union select 7 --",
    '[1,0,(select 1)]',
    '[1,0,0]::text',
    "[1,0,0]';select pg_sleep(5);--",
  ].map(encodeURIComponent)
  for (const attempt of attempts)
    for (const query of [`embedding=l2.${attempt}`, `order=embedding.l2.${attempt}`])
      await assertRefused(query)
  assert.equal((await ids('order=id')).length, 6)
})

test('an index on the column is used', async () => {
  await asOwner(`
    create table public.pile (id int primary key, embedding extensions.vector(3));
    insert into public.pile select i, array[random(), random(), random()]::extensions.vector from generate_series(1, 3000) i;
    create index pile_nearest on public.pile using hnsw (embedding extensions.vector_l2_ops)`)
  await asOwner('analyze public.pile')
  await known('pile')
  const { status, body } = await get('pile?select=id&order=embedding.l2.[1,0,0]&limit=5', {
    apikey: project.service_role_key,
    headers: { accept: 'application/vnd.pgrst.plan+text; for="application/json"; options=;' },
  })
  assert.equal(status, 200, body)
  assert.match(body, /Index Scan using pile_nearest/)
})

test('in a project that has not created it, the answer names the extension and how to get it', async () => {
  const bare = await platform.createProject()
  await platform.app.databases.asOwner({ ref: await platform.refOf(bare.id) }, session =>
    session.script('create table public.documents (id int primary key, embedding text)'),
  )
  const path = `/v1/rest/${bare.id}/documents?order=embedding.l2.[1,0,0]`
  const attempt = () => platform.call('GET', path, { apikey: bare.anon_key })
  for (const deadline = Date.now() + 30_000; (await attempt()).status === 404; await sleep(20))
    assert.ok(Date.now() < deadline, 'the API knows the table')
  const { status, body } = await attempt()
  assert.equal(status, 400, JSON.stringify(body))
  assert.match(`${body.message} ${body.hint}`, /create extension.*vector/i)
})

test('a migration creates the extension, and SQL finds its types and operators by their plain names', async () => {
  const fresh = await platform.createProject()
  const migration = {
    version: '20260101000000',
    name: 'vectors',
    sql: `create extension if not exists vector with schema extensions;
      create table public.points (id int primary key, place vector(2));
      create policy everybody on public.points using (true);
      insert into public.points values (1, '[1,1]'), (2, '[0,1]');
      create view public.from_origin as select id, place <-> '[0,0]' as distance from public.points;`,
  }
  const pushed = await platform.call('POST', `/api/v1/projects/${fresh.id}/db/push`, {
    token: platform.adminToken,
    body: { migrations: [migration] },
  })
  assert.equal(pushed.status, 200, JSON.stringify(pushed.body))
  const asked = await platform.call('POST', `/v1/rest/${fresh.id}/rpc/exec_sql`, {
    apikey: fresh.service_role_key,
    body: { sql: "select id from public.points order by place <-> '[0,0]'" },
  })
  assert.deepEqual([asked.status, asked.body], [200, [{ id: 2 }, { id: 1 }]])
})

test('the extension is one the server offers, from the directory it was given', async () => {
  const [row] = await platform.asSuperuser(ref, session =>
    session.rows<{ path: string; installed: string | null }>(
      raw(`select current_setting('extension_control_path') as path,
        (select installed_version from pg_available_extensions where name = 'vector') as installed`),
    ),
  )
  assert.match(row!.path, /^\$system:\/.*extensions$/)
  assert.notEqual(row!.installed, null)
})
