// Row changes as the client shows them: every event, several bindings, wildcards, transactions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../eventually.ts'
import { type Fixture, newSubscriber, rows, topic } from './realtime-fixture.ts'
import { type Change, idsOf } from './realtime-subscriber.ts'

const everyType = `id int primary key, big bigint, price numeric(8, 2), ratio float8, done boolean, label text, tags text[],
  numbers int[], meta jsonb, day date, at timestamptz, local timestamp, span int4range, blob bytea, nothing text, uid uuid`
const values = `9007199254740991, 12.50, 0.1, true, 'käse "& ''kuchen''', '{a,"b,c"}', '{1,2}', '{"a": [1, {"b": null}]}',
  '2026-02-03', '2026-02-03 04:05:06.789+02', '2026-02-03 04:05:06', '[1,5)', '\\xdeadbeef', null,
  '11111111-1111-4111-8111-111111111111'`

export function changeTests(fixture: () => Fixture): void {
  test('postgres changes: INSERT, UPDATE and DELETE arrive with the values that REST returns', async () => {
    const { service, sql, table, fetch } = fixture()
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
    // With the service_role key a DELETE has the whole old row.
    assert.deepEqual(without(deleted!), { ...common, eventType: 'DELETE', new: {}, old: second })
  })

  test('postgres changes: writes over REST arrive like writes in SQL', async () => {
    const { service, table, fetch } = fixture()
    const name = await table()
    const { changes, hears } = await rowsOf(service(), { table: name })
    const send = async (method: string, path: string, body?: unknown) =>
      assert.ok((await fetch(`rest/v1/${path}`, { method, body: JSON.stringify(body) })).ok, path)
    // REST may not have loaded the new schema yet.
    await eventually(async () => (await fetch(`rest/v1/${name}`)).ok, 'REST knows the table')
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

  test('postgres changes: each binding receives its own events, and a wildcard all of them', async () => {
    const { service, sql, table } = fixture()
    const name = await table()
    const subscriber = newSubscriber(service())
    const received = (['INSERT', 'UPDATE', 'DELETE', '*'] as const).map(event =>
      subscriber.addBinding({ event, table: name }),
    )
    await subscriber.join()
    await sql(`insert into ${name} (id) values (1); update ${name} set label = 'x'; delete from ${name}`)
    await sql(`insert into ${name} (id) values (2)`)
    await eventually(() => received[3]!.length === 4, 'four changes')
    assert.deepEqual(
      received.map(each => each.map(change => change.eventType)),
      [['INSERT', 'INSERT'], ['UPDATE'], ['DELETE'], ['INSERT', 'UPDATE', 'DELETE', 'INSERT']],
    )
  })

  test('postgres changes: a channel subscribes to several tables, one binding each', async () => {
    const { service, sql, table } = fixture()
    const [one, two, three] = [await table(), await table(), await table()]
    const subscriber = newSubscriber(service())
    const ofOne = subscriber.addBinding({ table: one })
    const ofTwo = subscriber.addBinding({ event: 'UPDATE', table: two })
    await subscriber.join()
    await sql(`insert into ${three} (id) values (1); insert into ${two} (id) values (1);
      insert into ${one} (id) values (1); update ${two} set id = 5; insert into ${one} (id) values (2)`)
    await eventually(() => ofOne.length === 2 && ofTwo.length === 1, 'each binding has received its changes')
    assert.deepEqual(tablesOf(ofOne), [one, one])
    assert.deepEqual(tablesOf(ofTwo), [two])
    assert.deepEqual([ofTwo[0]!.new['id'], ofTwo[0]!.old['id']], [5, 1])
  })

  test('postgres changes: without a table, or with schema *, all tables are covered, also later ones', async () => {
    const { service, sql, table } = fixture()
    const one = await table()
    const subscriber = newSubscriber(service())
    const ofSchema = subscriber.addBinding({ schema: 'public' })
    const ofAll = subscriber.addBinding({ schema: '*' })
    const ofWildcard = subscriber.addBinding({ schema: 'public', table: '*' })
    await subscriber.join()
    const two = await table()
    await sql(`insert into ${one} (id) values (1)`)
    // The trigger of a new table may be enabled a moment later.
    let id = 0
    await eventually(async () => {
      await sql(`insert into ${two} (id) values (${++id})`)
      return ofSchema.some(each => each.table === two)
    }, 'the new table')
    await sql(`insert into ${one} (id) values (2)`)
    for (const received of [ofSchema, ofAll, ofWildcard]) {
      await eventually(() => received.at(-1)?.new['id'] === 2 && received.at(-1)?.table === one, 'the last')
      assert.deepEqual(idsOf(received.filter(each => each.table === one)), [1, 2])
      assert.ok(tablesOf(received).includes(two))
    }
  })

  test('postgres changes: two channels of a socket receive the same table, and leaving one keeps the other', async () => {
    const { service, sql, table } = fixture()
    const name = await table()
    const client = service()
    const one = await newSubscriber(client, topic(), {}, { table: name }).join()
    const two = await newSubscriber(client, topic(), {}, { table: name, event: 'INSERT' }).join()
    await sql(`insert into ${name} (id) values (1)`)
    await Promise.all([one.receivesChanges(1), two.receivesChanges(1)])
    assert.equal(await client.removeChannel(one.channel), 'ok')
    await sql(`insert into ${name} (id) values (2)`)
    await two.receivesChanges(2)
    assert.deepEqual([one.ids(), two.ids()], [[1], [1, 2]])
  })

  test('postgres changes: changes arrive in commit order, and none of a rolled back transaction', async () => {
    const { service, sql, table } = fixture()
    const [one, two] = [await table(), await table()]
    const subscriber = await rows(service(), { table: one }, { table: two })
    await sql(`insert into ${one} (id) select generate_series(1, 100)`)
    await sql(`begin; insert into ${one} (id) values (900); savepoint s; rollback`)
    await sql(`begin; insert into ${two} (id) values (101); savepoint s; insert into ${one} (id) values (901);
      rollback to s; insert into ${one} (id) values (102); insert into ${two} (id) values (103); commit`)
    await sql(`truncate ${one}`)
    await sql(`insert into ${two} (id) values (104)`)
    await subscriber.receivesChanges(104)
    assert.deepEqual(
      subscriber.ids(),
      Array.from({ length: 104 }, (_, index) => index + 1),
    )
  })

  test('postgres changes: select chooses columns, and the key is always included', async () => {
    const { service, sql, table } = fixture()
    const name = await table('id int primary key, a text, b text, c text')
    const subscriber = newSubscriber(service())
    const some = subscriber.addBinding({ table: name, select: ['a', 'c'] })
    const all = subscriber.addBinding({ table: name })
    await subscriber.join()
    await sql(`insert into ${name} values (1, 'a', 'b', 'c'); update ${name} set a = 'x'`)
    await eventually(() => some.length === 2 && all.length === 2, 'both')
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

  test('postgres changes: an oversized row arrives as its key with an error', async () => {
    const { service, sql, table } = fixture()
    const name = await table()
    const subscriber = await rows(service(), { table: name })
    await sql(`insert into ${name} (id, label) values (1, repeat('x', 20000)), (2, 'small')`)
    await sql(`update ${name} set label = 'small, too' where id = 1`)
    await subscriber.receivesChanges(3)
    const [large, small, shrunk] = subscriber.changes
    assert.deepEqual([large!.new, large!.errors], [{ id: 1 }, ['payload_too_large']])
    assert.deepEqual([small!.new['label'], small!.errors], ['small', null])
    assert.deepEqual([shrunk!.eventType, shrunk!.errors], ['UPDATE', ['payload_too_large']])
    assert.deepEqual([shrunk!.new['id'], shrunk!.old], [1, { id: 1 }])
  })

  test('postgres changes: the topic name does not affect the bindings', async () => {
    const { service, sql, table } = fixture()
    const [name, other] = [await table(), await table()]
    const client = service()
    const topics = [`public:${other}`, 'größe: 東京 🗼', 'a/b?c=d&e#f', '*', 'phoenix', 'realtime:realtime']
    const ears = await Promise.all(
      topics.map(each => newSubscriber(client, each, {}, { table: name, event: 'INSERT' }).join()),
    )
    await sql(`insert into ${other} (id) values (7); insert into ${name} (id) values (1)`)
    for (const each of ears) {
      await each.receivesChanges(1)
      assert.deepEqual(each.ids(), [1])
    }
  })
}

async function rowsOf(...given: Parameters<typeof rows>) {
  const subscriber = await rows(...given)
  return { changes: subscriber.changes, hears: (count: number) => subscriber.receivesChanges(count) }
}

function without({ commit_timestamp, ...rest }: Change) {
  assert.ok(Date.parse(commit_timestamp) > 0)
  return rest
}

const tablesOf = (changes: Change[]) => changes.map(each => each.table)
