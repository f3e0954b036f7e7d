// 1 §8, REST contract §5 and §6 rows 17 and 24: limits on time, connections, rate and size.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertErrorBody, assertRefused, type RowsApi, rangeOf, rowsProject } from '../rows.ts'
import { freshTarget, type Target } from '../target.ts'

const user = { sub: '6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11' }

let it: Target
let rows: RowsApi
before(async () => {
  it = await freshTarget({
    PLATFORM_STATEMENT_TIMEOUT_MS: '3000',
    PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '700',
    PLATFORM_POOL_SIZE: '2',
  })
  rows = await rowsProject(
    it,
    `
    create table public.items (id int primary key, word text);
    insert into public.items values (1, 'one');
    create function public.nap(seconds float) returns text language sql volatile as $$ select pg_sleep(seconds)::text $$;
    create function public.claim() returns text language sql stable as $$ select current_setting('request.jwt.claims', true) $$;
    create function public.write_and_nap(seconds float) returns text language sql volatile
      as $$ insert into public.items values (99, 'late'); select pg_sleep(seconds)::text $$;
    `,
  )
})
after(() => it.stop())

test('Clarifications: a statement timeout returns 57014 with status 500, and the statement is rolled back', async () => {
  assertRefused(await rows.post('rpc/nap', { seconds: 9 }), 500, '57014')
  assertRefused(await rows.post('rpc/nap', { seconds: 9 }, { as: user, shape: 'alias' }), 500, '57014')
  assertRefused(await rows.post('rpc/write_and_nap', { seconds: 9 }), 500, '57014')
  assert.deepEqual(await rows.read('items?id=eq.99'), [])
})

test('case 7: claims do not outlive a statement that timed out', async () => {
  assertRefused(await rows.post('rpc/nap', { seconds: 9 }, { as: user }), 500, '57014')
  for (let i = 0; i < 5; i++) assert.doesNotMatch((await rows.read('rpc/claim')) ?? '', new RegExp(user.sub))
})

test('Clarifications: the statement timeout of anonymous callers is shorter', async () => {
  assertRefused(await rows.post('rpc/nap', { seconds: 1.2 }), 500, '57014')
  assert.equal((await rows.post('rpc/nap', { seconds: 1.2 }, { as: user })).status, 200)
})

test('1 §8 while all connections of a project are busy, requests get 429 with Retry-After: 1', async () => {
  const replies = await Promise.all(
    Array.from({ length: 80 }, () => rows.post('rpc/nap', { seconds: 1 }, { as: user })),
  )
  const refused = replies.filter(({ status }) => status === 429)
  assert.ok(refused.length > 0, 'somebody had to be sent away')
  assert.ok(
    replies.some(({ status }) => status === 200),
    'somebody was served',
  )
  for (const reply of replies) assert.ok([200, 429].includes(reply.status), `${reply.status} ${reply.text}`)
  for (const reply of refused) {
    assert.equal(reply.headers.get('retry-after'), '1')
    assertErrorBody(reply)
  }
  assert.equal((await rows.post('rpc/nap', { seconds: 0 }, { as: user })).status, 200)
})

test('1 §8 requests for rows count against the rate limit', async () => {
  const limited = await rowsProject(it, 'create table public.items (id int)', {
    fields: { quotas: { rate_limit_anon: 60, rate_limit_service_role: 0 } },
  })
  const first = await limited.get('items')
  assert.equal(first.headers.get('x-ratelimit-limit'), '60')
  let left = Number(first.headers.get('x-ratelimit-remaining'))
  assert.ok(left < 60)
  for (; left > 0; left--) assert.equal((await limited.get('items')).status, 200)
  for (const shape of ['native', 'alias'] as const) {
    const refused = await limited.get('items', { shape })
    assertRefused(refused, 429, 'over_request_rate_limit')
    assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/)
  }
  assert.equal((await limited.get('items', { as: 'service_role' })).status, 200)
})

test('REST contract §3: one request can insert five thousand rows', async () => {
  const body = Array.from({ length: 5000 }, (_, i) => ({ id: 1000 + i, word: `word ${i}` }))
  const reply = await rows.post('items?columns="id","word"', body, { as: user, prefer: 'count=exact' })
  assert.equal(reply.status, 201, reply.text)
  assert.equal(rangeOf(reply), '*/5000')
})

test('REST contract §4: a filter can list a thousand values', async () => {
  const ids = Array.from({ length: 1000 }, (_, i) => i + 1)
  assert.deepEqual(await rows.read(`items?select=id&id=in.(${ids.join(',')})&order=id&limit=1`), [{ id: 1 }])
})
