// 1 §6 subscription options, rule 5, and Realtime contract §5: which rows a filter selects.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Change, newOf, type RealtimeApi, realtimeProject, summary, topicOf } from '../realtime.ts'
import { ada } from '../storage.ts'
import { type Target, target } from '../target.ts'

let it: Target
let realtime: RealtimeApi
before(async () => {
  it = await target()
  realtime = await realtimeProject(
    it,
    `create table public.tasks (id int primary key, priority int, region text, title text, done boolean, due timestamptz, weight numeric);
     create policy everybody on public.tasks for select using (true);
     create table public.secrets (id int primary key, pin int, body text);
     create policy everybody on public.secrets for select using (true);
     revoke select on public.secrets from anon; grant select (id, body) on public.secrets to anon;`,
  )
})
after(async () => {
  await realtime.closeAll()
  await it.stop()
})

const rows = `
  (1, 1, 'a', 'plain', true, '2026-01-01 00:00+00', 1.5),
  (2, 2, 'b', 'a,b', false, '2026-02-01 00:00+00', 10),
  (3, 3, 'c', 'say "hi"', null, '2026-03-01 00:00+00', 9.99),
  (4, 4, 'A', '(x)', true, null, 100),
  (5, null, null, 'back\\slash', false, '2026-05-01 00:00+00', null),
  (6, 10, 'd', '100%', true, '2026-06-01 00:00+00', 0)`

const filters: [string, number[]][] = [
  ['priority=eq.3', [3]],
  ['priority=neq.3', [1, 2, 4, 6]],
  ['priority=gt.3', [4, 6]],
  ['priority=gte.3', [3, 4, 6]],
  ['priority=lt.3', [1, 2]],
  ['priority=lte.3', [1, 2, 3]],
  ['priority=in.(1,3,10)', [1, 3, 6]],
  ['priority=in.(3)', [3]],
  ['priority=eq.03', [3]],
  ['done=eq.f', [2, 5]],
  ['region=eq.a', [1]],
  ['region=neq.a', [2, 3, 4, 6]],
  ['region=in.(a,b)', [1, 2]],
  ['done=eq.true', [1, 4, 6]],
  ['weight=gt.9.99', [2, 4]],
  ['weight=eq.10.00', [2]],
  ['due=gte.2026-03-01T00:00:00Z', [3, 5, 6]],
  ['due=lt.2026-01-01T01:00:00+01:00', []],
  ['title=eq.(x)', [4]],
]
const upstream: [string, number[]][] = [
  ['title=like.%a%', [1, 2, 3, 5]],
  ['region=like.a', [1]],
  ['region=like.A%', [4]],
  ['region=ilike.a%', [1, 4]],
  ['region=is.null', [5]],
  ['done=is.true', [1, 4, 6]],
  ['done=is.null', [3]],
  ['region=match.^[ab]$', [1, 2]],
  ['region=imatch.^a$', [1, 4]],
  ['region=isdistinct.a', [2, 3, 4, 5, 6]],
  ['priority=not.eq.3', [1, 2, 4, 6]],
  ['priority=not.in.(1,2)', [3, 4, 6]],
  ['region=not.is.null', [1, 2, 3, 4, 6]],
  ['priority=gte.2,priority=lte.4', [2, 3, 4]],
  ['region=in.(a,b,c),done=eq.false', [2]],
  ['title=eq."a,b"', [2]],
  ['title=eq."say \\"hi\\""', [3]],
  ['title=in.("a,b",plain)', [1, 2]],
  ['title=eq."back\\\\slash"', [5]],
]

async function caught(list: [string, number[]][]): Promise<void> {
  const subscriptions = await Promise.all(
    list.map(([filter]) => realtime.subscribe('anon', { event: 'INSERT', table: 'tasks', filter })),
  )
  await realtime.sql(`delete from public.tasks; insert into public.tasks values ${rows}`)
  const newChanges = await realtime.newChanges(...subscriptions)
  assert.deepEqual(
    newChanges.map((changes, i) => [list[i]![0], newOf(changes)]),
    list,
  )
}

test('1 §6 each of the seven operators selects the matching rows', () => caught(filters))
test('Realtime contract §5: the operators, lists and quotes of upstream clients select the matching rows', () =>
  caught(upstream))

test('1 §6 filters select the same rows for service_role', async () => {
  const some = filters.slice(0, 7)
  const subscriptions = await Promise.all(
    some.map(([filter]) => realtime.subscribe('service_role', { event: 'INSERT', table: 'tasks', filter })),
  )
  await realtime.sql(`delete from public.tasks; insert into public.tasks values ${rows}`)
  const newChanges = await realtime.newChanges(...subscriptions)
  assert.deepEqual(
    newChanges.map(changes => newOf(changes)),
    some.map(([, ids]) => ids),
  )
})

test('Realtime contract §5: the filter of an UPDATE applies to the new row', async () => {
  const binding = (filter: string) => ({ event: 'UPDATE', table: 'tasks', filter })
  const subscriptions = [
    await realtime.subscribe('anon', binding('priority=gte.3')),
    await realtime.subscribe('anon', binding('priority=eq.3')),
    await realtime.subscribe('anon', binding('region=in.(b)')),
  ]
  await realtime.sql(
    `delete from public.tasks; insert into public.tasks (id, priority, region) values (1, 1, 'a'), (2, 3, 'b'), (3, 3, 'a')`,
  )
  await realtime.sql(
    `update public.tasks set priority = case id when 1 then 3 when 2 then 2 else 6 end, region = case id when 1 then 'b' else 'a' end`,
  )
  const newChanges = await realtime.newChanges(...subscriptions)
  assert.deepEqual(
    newChanges.map(changes => newOf(changes).toSorted()),
    [[1, 3], [1], [1]],
  )
})

test('1 §6 a filter with event * applies to each kind of event', async () => {
  const subscription = await realtime.subscribe(ada, { event: '*', table: 'tasks', filter: 'id=eq.7' })
  await realtime.sql(`delete from public.tasks; insert into public.tasks (id) values (7), (8)`)
  await realtime.sql(`update public.tasks set region = 'x'`)
  await realtime.sql(`delete from public.tasks`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(
    changes!.map(({ eventType, new: now, old }) => [eventType, (now ?? old).id]),
    [
      ['INSERT', 7],
      ['UPDATE', 7],
      ['DELETE', 7],
    ],
  )
})

test('1 §6 rule 5: a DELETE filter may use a key column', async () => {
  const table = await realtime.table(
    'a int, b text, c int, primary key (a, b)',
    name => `create policy everybody on public.${name} for select using (true)`,
  )
  const binding = (filter: string) => ({ event: 'DELETE', table, filter })
  const subscriptions = [
    await realtime.subscribe('anon', binding('a=eq.1')),
    await realtime.subscribe(ada, binding('b=in.(x,z)')),
    await realtime.subscribe(ada, binding('a=gt.1,b=eq.y')),
    await realtime.subscribe('service_role', binding('a=eq.1')),
  ]
  await realtime.sql(
    `insert into public.${table} values (1, 'x', 3), (2, 'y', 4); delete from public.${table}`,
  )
  const [anon, inList, both, service] = await realtime.newChanges(...subscriptions)
  assert.deepEqual(anon!.map(summary), [['DELETE', null, { a: 1, b: 'x' }]])
  assert.deepEqual(inList!.map(summary), [['DELETE', null, { a: 1, b: 'x' }]])
  assert.deepEqual(both!.map(summary), [['DELETE', null, { a: 2, b: 'y' }]])
  assert.deepEqual(service!.map(summary), [['DELETE', null, { a: 1, b: 'x', c: 3 }]])
})

test('1 §6 rule 5: a DELETE filter on another column receives nothing, except for service_role', async () => {
  const binding = (event: string, filter: string) => ({ event, table: 'tasks', filter })
  const subscriptions = [
    await realtime.subscribe('anon', binding('DELETE', 'region=eq.a')),
    await realtime.subscribe(ada, binding('*', 'region=eq.a')),
    await realtime.subscribe(ada, binding('DELETE', 'id=eq.1,region=eq.a')),
    await realtime.subscribe(ada, binding('DELETE', 'region=neq.zzz')),
    await realtime.subscribe('service_role', binding('DELETE', 'region=eq.a')),
    await realtime.subscribe('anon', { event: 'DELETE', table: 'tasks' }),
  ]
  await realtime.sql(`delete from public.tasks`)
  await realtime.newChanges(...subscriptions)
  await realtime.sql(`insert into public.tasks (id, region) values (1, 'a'), (2, 'b')`)
  await realtime.sql(`delete from public.tasks`)
  const [anon, star, mixed, not, service, filterless] = await realtime.newChanges(...subscriptions)
  assert.deepEqual([anon, mixed, not], [[], [], []])
  assert.deepEqual(
    star!.map(({ eventType }) => eventType),
    ['INSERT'],
    'only of the insertion',
  )
  assert.deepEqual(
    service!.map(({ old }) => old.id),
    [1],
  )
  assert.deepEqual(
    filterless!.map(({ old }) => old).toSorted((a, b) => a.id - b.id),
    [{ id: 1 }, { id: 2 }],
  )
})

test('1 §6 rule 5: on a table without a key a DELETE arrives only without a filter', async () => {
  const table = await realtime.table(
    'a int, b int',
    name => `create policy everybody on public.${name} for select using (true)`,
  )
  const subscriptions = [
    await realtime.subscribe(ada, { event: 'DELETE', table, filter: 'a=eq.1' }),
    await realtime.subscribe(ada, { event: 'DELETE', table }),
    await realtime.subscribe('service_role', { event: 'DELETE', table, filter: 'a=eq.1' }),
  ]
  await realtime.sql(`insert into public.${table} values (1, 1), (2, 2); delete from public.${table}`)
  const [filtered, open, service] = await realtime.newChanges(...subscriptions)
  assert.deepEqual(filtered, [])
  assert.equal(open!.length, 2)
  assert.deepEqual(
    service!.map(({ old }) => old),
    [{ a: 1, b: 1 }],
  )
})

test('1 §6 only requested events are sent', async () => {
  const events = ['INSERT', 'UPDATE', 'DELETE', '*'] as const
  const subscriptions = await Promise.all(
    events.map(event => realtime.subscribe('anon', { event, table: 'tasks' })),
  )
  await realtime.sql(`delete from public.tasks`)
  await realtime.newChanges(...subscriptions)
  await realtime.sql(`insert into public.tasks (id) values (1)`)
  await realtime.sql(`update public.tasks set region = 'x'`)
  await realtime.sql(`delete from public.tasks`)
  const newChanges = await realtime.newChanges(...subscriptions)
  const kinds = (changes: Change[]) => changes.map(({ eventType }) => eventType)
  assert.deepEqual(newChanges.map(kinds), [
    ['INSERT'],
    ['UPDATE'],
    ['DELETE'],
    ['INSERT', 'UPDATE', 'DELETE'],
  ])
})

test('case 11: a filter on a column that the role may not select reveals nothing', async () => {
  const socket = await realtime.connect()
  const channels = []
  for (const filter of [
    'pin=eq.1234',
    'pin=neq.1234',
    'pin=not.eq.1',
    'pin=is.null',
    'id=gt.0,pin=eq.1234',
  ]) {
    const binding = { event: '*', schema: 'public', table: 'secrets', filter }
    channels.push(await socket.join(topicOf(), { postgres_changes: [binding] }))
  }
  const open = await realtime.subscribeOn(socket, { table: 'secrets' })
  const service = await realtime.subscribe('service_role', { table: 'secrets', filter: 'pin=eq.1234' })
  await realtime.sql(`insert into public.secrets values (1, 1234, 'a'), (2, 1, 'b'), (3, null, 'c')`)
  const [opens, services] = await realtime.newChanges(open, service)
  assert.deepEqual(newOf(opens!), [1, 2, 3])
  assert.deepEqual(newOf(services!), [1])
  await socket.heartbeat()
  for (const channel of channels)
    assert.deepEqual(
      channel.received().filter(({ event }) => event === 'postgres_changes'),
      [],
    )
})

const bad: [string, string][] = [
  ['a column that there is not', 'nothing=eq.1'],
  ['an operator that there is not', 'id=near.1'],
  ['a value of another type', 'priority=eq.high'],
  ['a value of another type in a list', 'priority=in.(1,high)'],
  ['no operator', 'priority'],
  ['no column', '=eq.1'],
  ['half a list', 'priority=in.(1,2'],
  ['far too many values', `priority=in.(${Array.from({ length: 1000 }, (_, i) => i)})`],
  ['SQL', `priority=eq.1); drop table public.tasks; --`],
]
for (const [what, filter] of bad)
  test(`Realtime contract §4: a filter with ${what} joins, gets a system error and no changes`, async () => {
    const socket = await realtime.connect()
    const binding = { event: '*', schema: 'public', table: 'tasks', filter }
    const channel = await socket.join(topicOf(), { postgres_changes: [binding] })
    assert.equal(channel.response.postgres_changes[0].filter, filter)
    const { payload } = await channel.system('error')
    assert.equal(payload.channel, channel.topic.slice('realtime:'.length))
    assert.notEqual(payload.message, '')
    const other = await realtime.subscribeOn(socket, { table: 'tasks' })
    await realtime.sql(`delete from public.tasks; insert into public.tasks (id, priority) values (1, 1)`)
    const [changes] = await realtime.newChanges(other)
    assert.ok(changes!.some(({ eventType }) => eventType === 'INSERT'))
    assert.ok(!channel.received().some(({ event }) => event === 'postgres_changes'))
  })

test('1 §6 a filter still works when the columns of the table change right after a write', async () => {
  const table = await realtime.table(
    'id int primary key, priority numeric',
    name => `create policy everybody on public.${name} for select using (true)`,
  )
  const subscription = await realtime.subscribe('anon', { table, filter: 'priority=gte.3' })
  await realtime.sql(`insert into public.${table} values (1, 2), (2, 3);
    alter table public.${table} add column more text`)
  await realtime.sql(`insert into public.${table} values (3, 4)`)
  const [changes] = await realtime.newChanges(subscription)
  assert.deepEqual(newOf(changes!), [2, 3])
})
