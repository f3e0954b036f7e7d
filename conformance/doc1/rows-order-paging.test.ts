// 1 §4.2, §4.3 and REST contract §3, §4, §6 rows 7-11, 22, 25: order, ranges and counts.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type Ask,
  assertRefused,
  assertStatus,
  type Caller,
  type RowsApi,
  rangeOf,
  rowsProject,
  totalOf,
} from '../rows.ts'
import { freshTarget, type Target, target } from '../target.ts'

const ada = { sub: '6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11' }
const schema = `
  create table public.authors (id int primary key, name text);
  insert into public.authors values (1, 'Zoe'), (2, 'Ann'), (3, 'Max');
  create table public.items (id int primary key, name text, rank int, meta jsonb, author_id int references public.authors);
  insert into public.items values
    (1, 'b', 2, '{"n":10,"t":"y"}', 1), (2, 'a', null, '{"n":9,"t":"z"}', 2), (3, 'b', 1, null, null),
    (4, 'c', null, '{"n":100,"t":"x"}', 3), (5, 'a', 3, '{"n":1}', 2);
  create table public.many (id int primary key);
  insert into public.many select generate_series(1, 1500);
  create table public.none (id int primary key);`

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(it, schema)
  await rows.ddl(`
    create table public.owned (id int primary key, owner uuid, is_public boolean);
    insert into public.owned values (1, '${ada.sub}', false), (2, '${ada.sub}', true), (3, null, true), (4, null, false), (5, null, false);
    create policy visible on public.owned for select using (is_public or owner = auth.uid())`)
})
after(() => it.stop())

const idsOf = async (query: string): Promise<number[]> =>
  (await rows.read(`items?select=id&${query}`)).map(({ id }: { id: number }) => id)

const orders: Record<string, number[]> = {
  'order=id.desc': [5, 4, 3, 2, 1],
  'order=id.asc': [1, 2, 3, 4, 5],
  'order=id': [1, 2, 3, 4, 5],
  'order=name.desc,id.asc': [4, 1, 3, 2, 5],
  'order=name,id.desc': [5, 2, 3, 1, 4],
  'order=rank.asc.nullsfirst,id': [2, 4, 3, 1, 5],
  'order=rank.asc.nullslast,id': [3, 1, 5, 2, 4],
  'order=rank.desc.nullsfirst,id': [2, 4, 5, 1, 3],
  'order=rank.desc.nullslast,id': [5, 1, 3, 2, 4],
  'order=rank.nullsfirst,id': [2, 4, 3, 1, 5],
  'order=meta->n.desc.nullslast': [4, 1, 2, 5, 3],
  'order=meta->>t.nullslast,id': [4, 1, 2, 3, 5],
  'order=meta->>n.asc.nullslast': [5, 1, 4, 2, 3],
}
for (const [query, ids] of Object.entries(orders))
  test(`1 §4.2 ${query}`, async () => assert.deepEqual(await idsOf(query), ids))

test('1 §4.2 rows are ordered before limit and offset apply, also by columns that are not selected', async () => {
  assert.deepEqual(await rows.read('items?select=name&order=id.desc&limit=2'), [{ name: 'a' }, { name: 'c' }])
})

test('REST contract §4: an invalid order returns 400', async () => {
  for (const order of [
    'id.up',
    'id.asc.nulls',
    'id.nullsfirst.desc',
    'id.asc.desc',
    ',id',
    'id,',
    'id.asc.nullsfirst.x',
  ])
    assertRefused(await rows.get(`items?order=${order}`), 400, 'PGRST100')
  assertRefused(await rows.get('items?order=ragnk'), 400, '42703')
})

test('REST contract §4: rows can be ordered by a column of a to-one embed', async () => {
  const query = 'items?select=id,authors(name)&author_id=not.is.null'
  const ids = async (order: string) => (await rows.read(`${query}&order=${order}`)).map((row: any) => row.id)
  assert.deepEqual(await ids('authors(name),id'), [2, 5, 4, 1])
  assert.deepEqual(await ids('authors(name).desc,id.desc'), [1, 4, 5, 2])
  const all = await rows.read('items?select=id,authors(name)&order=authors(name).asc.nullsfirst,id')
  assert.deepEqual(
    all.map((row: any) => row.id),
    [3, 2, 5, 4, 1],
  )
})

test('REST contract §5: order by a table that is not embedded, or embedded to-many, returns 400', async () => {
  assertRefused(await rows.get('items?select=id&order=authors(name)'), 400, 'PGRST108')
  assertRefused(await rows.get('authors?select=id,items(id)&order=items(name)'), 400, 'PGRST118')
})

test('1 §4.2 limit and offset', async () => {
  assert.deepEqual(await idsOf('order=id&limit=2'), [1, 2])
  assert.deepEqual(await idsOf('order=id&offset=3'), [4, 5])
  assert.deepEqual(await idsOf('order=id&limit=2&offset=1'), [2, 3])
  assert.deepEqual(await idsOf('order=id&limit=100&offset=4'), [5])
  assert.deepEqual(await idsOf('limit=0'), [])
  assert.deepEqual(await idsOf('offset=100'), [])
})

test('1 §4.2 a negative or non-numeric limit or offset returns 400', async () => {
  for (const query of ['limit=-1', 'offset=-1', 'limit=-1&offset=2'])
    assertRefused(await rows.get(`items?${query}`), 400, 'PGRST103')
  for (const query of ['limit=x', 'offset=x', 'limit=1.5', 'limit=', 'limit=1e3'])
    assertStatus(await rows.get(`items?${query}`), 400)
})

test('REST contract §3: a read returns 200 with JSON, Content-Range and Accept-Ranges', async () => {
  const expected: Record<string, string> = {
    'items?order=id': '0-4/*',
    'items?order=id&limit=2': '0-1/*',
    'items?order=id&limit=2&offset=2': '2-3/*',
    'items?offset=100': '*/*',
    'none?select=id': '*/*',
  }
  for (const [path, range] of Object.entries(expected)) {
    const reply = await rows.get(path)
    assert.equal(reply.status, 200)
    assert.equal(rangeOf(reply), range, path)
    assert.equal(reply.headers.get('accept-ranges'), 'items', path)
    assert.match(reply.headers.get('content-type') ?? '', /^application\/json; ?charset=utf-8$/i)
  }
})

test('1 §4.3 a count adds the total, independent of limit and offset', async () => {
  for (const kind of ['exact', 'planned', 'estimated']) {
    const prefer = `count=${kind}`
    const expected: Record<string, string> = {
      'items?order=id': '0-4/5',
      'items?order=id&limit=2': '0-1/5',
      'items?order=id&limit=2&offset=2': '2-3/5',
      'items?name=eq.a&limit=1': '0-0/2',
      'items?or=(id.eq.1,id.gt.3)&limit=1': '0-0/3',
      'items?offset=100': '*/5',
      'items?limit=0': '*/5',
      'none?select=id': '*/0',
    }
    for (const [path, range] of Object.entries(expected)) {
      const reply = await rows.get(path, { prefer })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(rangeOf(reply), range, `${path} ${kind}`)
    }
  }
})

test('1 §4.3.4 the total counts rows of the base table, also with embeds', async () => {
  const prefer = 'count=exact'
  assert.equal(totalOf(await rows.get('authors?select=id,items(id)', { prefer })), '3')
  assert.equal(totalOf(await rows.get('authors?select=id,items(id)&items.limit=1', { prefer })), '3')
  assert.equal(totalOf(await rows.get('authors?select=id,items(id)&items.name=eq.zzz', { prefer })), '3')
  assert.equal(totalOf(await rows.get('items?select=id,authors(name)&limit=1', { prefer })), '5')
  assert.equal(totalOf(await rows.get('items?select=id,authors!inner(name)&limit=1', { prefer })), '4')
})

test('1 §4.3.4 HEAD returns only the total', async () => {
  for (const options of [{}, { prefer: 'count=exact' }, { shape: 'alias' }] satisfies Ask[]) {
    const reply = await rows.head('items?name=in.(a,b)', options)
    assert.equal(reply.status, 200)
    assert.equal(reply.text, '')
    assert.equal(totalOf(reply), '4')
  }
  assert.equal(rangeOf(await rows.head('none?select=id')), '*/0')
  assert.equal(totalOf(await rows.head('items?limit=1')), '5')
  assert.equal(totalOf(await rows.head('many?select=id')), '1500')
  assert.equal((await rows.head('items?nothing=eq.1')).status, 400)
  assert.equal((await rows.head('nothing')).status, 404)
})

test('1 §4.3.4 a count includes only rows that the caller may see', async () => {
  const callers: [Caller, string][] = [
    ['anon', '2'],
    [ada, '3'],
    [{ sub: '00000000-0000-4000-8000-000000000001' }, '2'],
    ['service_role', '5'],
  ]
  for (const [as, total] of callers) {
    for (const kind of ['exact', 'planned', 'estimated']) {
      // For service_role the count may be an estimate of the planner: this role sees all rows anyway.
      if (as === 'service_role' && kind !== 'exact') continue
      const options = { as, prefer: `count=${kind}` }
      assert.equal(totalOf(await rows.get('owned?limit=1', options)), total, `${JSON.stringify(as)} ${kind}`)
      assert.equal(totalOf(await rows.head('owned', options)), total, `HEAD ${JSON.stringify(as)} ${kind}`)
    }
    assert.deepEqual(await rows.read('owned?select=count', { as }), [{ count: Number(total) }])
  }
})

test('1 §4.3 service_role may get an estimate, which is also a number', async () => {
  for (const kind of ['planned', 'estimated']) {
    const reply = await rows.get('many?limit=1', { as: 'service_role', prefer: `count=${kind}` })
    assert.equal(reply.status, 200, reply.text)
    assert.match(rangeOf(reply) ?? '', /^0-0\/\d+$/)
  }
})

const windowed = async (
  range: string,
  path = 'items?select=id&order=id',
  headers: Record<string, string> = {},
) => {
  const reply = await rows.get(path, { headers: { range, ...headers } })
  assert.equal(reply.status, 200, reply.text)
  return { ids: reply.body.map(({ id }: { id: number }) => id), reply }
}

test('1 §4.3.2 Range is inclusive and starts at zero, and the response has Content-Range', async () => {
  for (const headers of [{ 'range-unit': 'items' }, {}]) {
    const { ids, reply } = await windowed('1-2', undefined, headers as Record<string, string>)
    assert.deepEqual(ids, [2, 3])
    assert.equal(rangeOf(reply), '1-2/*')
    assert.equal(reply.headers.get('accept-ranges'), 'items')
  }
  assert.deepEqual((await windowed('0-0')).ids, [1])
  assert.deepEqual((await windowed('3-100')).ids, [4, 5])
  const counted = await rows.get('items?order=id', { headers: { range: '1-2' }, prefer: 'count=exact' })
  assert.equal(rangeOf(counted), '1-2/5')
})

test('1 §4.3.1 limit and offset override Range', async () => {
  assert.deepEqual((await windowed('1-2', 'items?select=id&order=id&limit=4')).ids, [1, 2, 3, 4])
  assert.deepEqual((await windowed('1-2', 'items?select=id&order=id&offset=3')).ids, [4, 5])
  const { ids, reply } = await windowed('0-4', 'items?select=id&order=id&limit=1&offset=2')
  assert.deepEqual(ids, [3])
  assert.equal(rangeOf(reply), '2-2/*')
})

test('1 §4.3.1 a malformed, open-ended or reversed Range is ignored', async () => {
  for (const range of ['1-', '-2', 'items=1-2', 'a-b', '3-1', '1-2,4-5', '1', '-', '1--2'])
    assert.deepEqual((await windowed(range)).ids, [1, 2, 3, 4, 5], range)
  assert.deepEqual((await windowed('1-2', undefined, { 'range-unit': 'bytes' })).ids, [1, 2, 3, 4, 5])
})

test('1 §4.3.3 a read returns at most 1000 rows, with the real total', async () => {
  const expected: [string, number, string][] = [
    ['many?order=id', 1000, '0-999/1500'],
    ['many?order=id&limit=1400', 1000, '0-999/1500'],
    ['many?order=id&offset=200', 1000, '200-1199/1500'],
    ['many?order=id&limit=1400&offset=200', 1000, '200-1199/1500'],
    ['many?order=id&id=gt.100', 1000, '0-999/1400'],
    ['many?order=id&offset=1200', 300, '1200-1499/*'],
    ['many?order=id&limit=10', 10, '0-9/*'],
  ]
  for (const [path, length, range] of expected) {
    const reply = await rows.get(path)
    assert.equal(reply.status, 200)
    assert.equal(reply.body.length, length, path)
    assert.equal(rangeOf(reply), range, path)
  }
  const { ids, reply } = await windowed('100-1499', 'many?order=id')
  assert.equal(ids.length, 1000)
  assert.equal(rangeOf(reply), '100-1099/*')
})

test('Issue: a page of a thousand rows of 10 kB arrives complete, also several at once', async () => {
  await rows.ddl(`
    create table public.large (id int primary key, word text);
    insert into public.large select n, repeat(chr(64 + n % 26), 10000) from generate_series(1, 1000) n;
    create policy everybody on public.large using (true)`)
  for (const reply of await Promise.all([1, 2, 3].map(() => rows.get('large?order=id', { as: ada })))) {
    assert.equal(reply.status, 200, reply.text.slice(0, 300))
    assert.equal(reply.body.length, 1000)
    assert.ok(
      reply.body.every(({ id, word }: any) => word === String.fromCharCode(64 + (id % 26)).repeat(10_000)),
    )
  }
})

test('1 §8 PLATFORM_REST_MAX_ROWS sets the maximum number of rows, 0 removes it', async () => {
  for (const [cap, length, range] of [
    ['3', 3, '0-2/5'],
    ['0', 1500, '0-1499/*'],
  ] as const) {
    const platform = await freshTarget({ PLATFORM_REST_MAX_ROWS: cap })
    try {
      const capped = await rowsProject(platform, schema)
      const table = cap === '0' ? 'many' : 'items'
      for (const query of ['order=id', 'order=id&limit=5000']) {
        const reply = await capped.get(`${table}?${query}`)
        assert.equal(reply.body.length, length)
        assert.equal(rangeOf(reply), range)
      }
    } finally {
      await platform.stop()
    }
  }
})
