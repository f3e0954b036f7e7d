// Row changes as the client shows them: every event, several bindings, wildcards, transactions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Change, idsOf, until } from './realtime-ear.ts'
import { ear, rows, type Stage, topic } from './realtime-stage.ts'

const everyType = `id int primary key, big bigint, price numeric(8, 2), ratio float8, done boolean, label text, tags text[],
  numbers int[], meta jsonb, day date, at timestamptz, local timestamp, span int4range, blob bytea, nothing text, uid uuid`
const values = `9007199254740991, 12.50, 0.1, true, 'käse "& ''kuchen''', '{a,"b,c"}', '{1,2}', '{"a": [1, {"b": null}]}',
  '2026-02-03', '2026-02-03 04:05:06.789+02', '2026-02-03 04:05:06', '[1,5)', '\\xdeadbeef', null,
  '11111111-1111-4111-8111-111111111111'`

export function changeTests(stage: () => Stage): void {
  test('an insert, an update and a delete arrive with the values REST shows', async () => {
    const { service, sql, table, fetch } = stage()
    const name = await table(everyType)
    const { changes, hears } = await rowsOf(service(), { table: name })
    const read = async () => ((await (await fetch(`rest/v1/${name}`)).json()) as object[])[0]!
    await sql(`insert into ${name} values (1, ${values})`)
    const first = await read()
    await sql(`update ${name} set label = 'new', meta = '[]', done = null`)
    const second = await read()
    await sql(`delete from ${name}`)
    await hears(3)
    const [inserted, updated, deleted, ...more] = changes
    assert.deepEqual(more, [])
    const common = { schema: 'public', table: name, errors: null }
    const { commit_timestamp, ...rest } = inserted!
    assert.deepEqual(rest, { ...common, eventType: 'INSERT', new: first, old: {} })
    assert.match(commit_timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.ok(Math.abs(Date.parse(commit_timestamp) - Date.now()) < 60_000, commit_timestamp)
    assert.deepEqual(without(updated!), { ...common, eventType: 'UPDATE', new: second, old: first })
    // With the service_role key the row that is gone is whole.
    assert.deepEqual(without(deleted!), { ...common, eventType: 'DELETE', new: {}, old: second })
  })

  test('what is written by REST arrives like what is written in SQL', async () => {
    const { service, table, fetch } = stage()
    const name = await table()
    const { changes, hears } = await rowsOf(service(), { table: name })
    const send = async (method: string, path: string, body?: unknown) =>
      assert.ok((await fetch(`rest/v1/${path}`, { method, body: JSON.stringify(body) })).ok, path)
    // The schema may be news to REST.
    await until(async () => (await fetch(`rest/v1/${name}`)).ok, 'REST knows the table')
    await send('POST', name, [
      { id: 1, label: 'a' },
      { id: 2, label: 'b' },
    ])
    await send('PATCH', `${name}?id=eq.2`, { label: 'c' })
    await send('DELETE', `${name}?id=eq.1`)
    await hears(4)
    assert.deepEqual(
      changes.map(each => [each.eventType, each.new['label'], each.old['label']]),
      [
        ['INSERT', 'a', undefined],
        ['INSERT', 'b', undefined],
        ['UPDATE', 'c', 'b'],
        ['DELETE', undefined, 'a'],
      ],
    )
  })

  test('each binding of a channel hears its own events, and a wildcard all of them', async () => {
    const { service, sql, table } = stage()
    const name = await table()
    const listener = ear(service())
    const heard = (['INSERT', 'UPDATE', 'DELETE', '*'] as const).map(event =>
      listener.wants({ event, table: name }),
    )
    await listener.join()
    await sql(`insert into ${name} (id) values (1); update ${name} set label = 'x'; delete from ${name}`)
    await sql(`insert into ${name} (id) values (2)`)
    await until(() => heard[3]!.length === 4, 'four changes')
    assert.deepEqual(
      heard.map(each => each.map(change => change.eventType)),
      [['INSERT', 'INSERT'], ['UPDATE'], ['DELETE'], ['INSERT', 'UPDATE', 'DELETE', 'INSERT']],
    )
  })

  test('a channel hears several tables, each by its own binding', async () => {
    const { service, sql, table } = stage()
    const [one, two, three] = [await table(), await table(), await table()]
    const listener = ear(service())
    const ofOne = listener.wants({ table: one })
    const ofTwo = listener.wants({ event: 'UPDATE', table: two })
    await listener.join()
    await sql(`insert into ${three} (id) values (1); insert into ${two} (id) values (1);
      insert into ${one} (id) values (1); update ${two} set id = 5; insert into ${one} (id) values (2)`)
    await until(() => ofOne.length === 2 && ofTwo.length === 1, 'what was asked for')
    assert.deepEqual(tablesOf(ofOne), [one, one])
    assert.deepEqual(tablesOf(ofTwo), [two])
    assert.deepEqual([ofTwo[0]!.new['id'], ofTwo[0]!.old['id']], [5, 1])
  })

  test('without a table all of the schema are heard, those made later, too; with the schema * as well', async () => {
    const { service, sql, table } = stage()
    const one = await table()
    const listener = ear(service())
    const ofSchema = listener.wants({ schema: 'public' })
    const ofAll = listener.wants({ schema: '*' })
    const ofWildcard = listener.wants({ schema: 'public', table: '*' })
    await listener.join()
    const two = await table()
    await sql(`insert into ${one} (id) values (1)`)
    // The trigger of a new table may be enabled a moment later.
    let id = 0
    await until(async () => {
      await sql(`insert into ${two} (id) values (${++id})`)
      return ofSchema.some(each => each.table === two)
    }, 'the new table')
    await sql(`insert into ${one} (id) values (2)`)
    for (const heard of [ofSchema, ofAll, ofWildcard]) {
      await until(() => heard.at(-1)?.new['id'] === 2 && heard.at(-1)?.table === one, 'the last')
      assert.deepEqual(idsOf(heard.filter(each => each.table === one)), [1, 2])
      assert.ok(tablesOf(heard).includes(two))
    }
  })

  test('two channels of a socket hear the same table; when one is left the other still does', async () => {
    const { service, sql, table } = stage()
    const name = await table()
    const client = service()
    const one = await ear(client, topic(), {}, { table: name }).join()
    const two = await ear(client, topic(), {}, { table: name, event: 'INSERT' }).join()
    await sql(`insert into ${name} (id) values (1)`)
    await Promise.all([one.hears(1), two.hears(1)])
    assert.equal(await client.removeChannel(one.channel), 'ok')
    await sql(`insert into ${name} (id) values (2)`)
    await two.hears(2)
    assert.deepEqual([one.ids(), two.ids()], [[1], [1, 2]])
  })

  test('changes come in the order of their commits, and none of a transaction that was rolled back', async () => {
    const { service, sql, table } = stage()
    const [one, two] = [await table(), await table()]
    const listener = await rows(service(), { table: one }, { table: two })
    await sql(`insert into ${one} (id) select generate_series(1, 100)`)
    await sql(`begin; insert into ${one} (id) values (900); savepoint s; rollback`)
    await sql(`begin; insert into ${two} (id) values (101); savepoint s; insert into ${one} (id) values (901);
      rollback to s; insert into ${one} (id) values (102); insert into ${two} (id) values (103); commit`)
    await sql(`truncate ${one}`)
    await sql(`insert into ${two} (id) values (104)`)
    await listener.hears(104)
    assert.deepEqual(
      listener.ids(),
      Array.from({ length: 104 }, (_, index) => index + 1),
    )
  })

  test('columns are chosen with select, and the key is always among them', async () => {
    const { service, sql, table } = stage()
    const name = await table('id int primary key, a text, b text, c text')
    const listener = ear(service())
    const some = listener.wants({ table: name, select: ['a', 'c'] })
    const all = listener.wants({ table: name })
    await listener.join()
    await sql(`insert into ${name} values (1, 'a', 'b', 'c'); update ${name} set a = 'x'`)
    await until(() => some.length === 2 && all.length === 2, 'both')
    assert.deepEqual(
      some.map(each => [each.new, each.old]),
      [
        [{ id: 1, a: 'a', c: 'c' }, {}],
        [
          { id: 1, a: 'x', c: 'c' },
          { id: 1, a: 'a', c: 'c' },
        ],
      ],
    )
    assert.deepEqual(all[0]!.new, { id: 1, a: 'a', b: 'b', c: 'c' })
  })

  test('a row too large to travel arrives as its key, with the reason', async () => {
    const { service, sql, table } = stage()
    const name = await table()
    const listener = await rows(service(), { table: name })
    await sql(`insert into ${name} (id, label) values (1, repeat('x', 20000)), (2, 'small')`)
    await sql(`update ${name} set label = 'small, too' where id = 1`)
    await listener.hears(3)
    const [large, small, shrunk] = listener.changes
    assert.deepEqual([large!.new, large!.errors], [{ id: 1 }, ['payload_too_large']])
    assert.deepEqual([small!.new['label'], small!.errors], ['small', null])
    assert.deepEqual([shrunk!.eventType, shrunk!.errors], ['UPDATE', ['payload_too_large']])
    assert.deepEqual([shrunk!.new['id'], shrunk!.old], [1, { id: 1 }])
  })

  test('a topic is any text, and says nothing about the rows that are asked for', async () => {
    const { service, sql, table } = stage()
    const [name, other] = [await table(), await table()]
    const client = service()
    const topics = [`public:${other}`, 'größe: 東京 🗼', 'a/b?c=d&e#f', '*', 'phoenix', 'realtime:realtime']
    const ears = await Promise.all(
      topics.map(each => ear(client, each, {}, { table: name, event: 'INSERT' }).join()),
    )
    await sql(`insert into ${other} (id) values (7); insert into ${name} (id) values (1)`)
    for (const each of ears) {
      await each.hears(1)
      assert.deepEqual(each.ids(), [1])
    }
  })
}

async function rowsOf(...given: Parameters<typeof rows>) {
  const listener = await rows(...given)
  return { changes: listener.changes, hears: (count: number) => listener.hears(count) }
}

function without({ commit_timestamp, ...rest }: Change) {
  assert.ok(Date.parse(commit_timestamp) > 0)
  return rest
}

const tablesOf = (changes: Change[]) => changes.map(each => each.table)
