// Who is told of which rows: the same policies as REST, for every user by their own claims.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from './realtime-ear.ts'
import { ada, bob, ear, rows, type Stage, topic } from './realtime-stage.ts'

const own = 'to authenticated using (owner = auth.uid())'
const columns = 'id int primary key, owner uuid, label text'

export function rowsPerUserTests(stage: () => Stage): void {
  test('two who have signed up each hear their own rows, anon the public ones, service_role all', async () => {
    const { anon, service, signUp, sql, table } = stage()
    const name = await table(columns, own)
    await sql(`create policy shown on ${name} for select using (label = 'public')`)
    const [one, two] = [await signUp(), await signUp()]
    const listeners = await Promise.all(
      [one.realtime, two.realtime, anon(), service()].map(client => rows(client, { table: name })),
    )
    await sql(`insert into ${name} values (1, '${one.id}', 'x'), (2, '${two.id}', 'x'), (3, null, 'public'),
      (4, null, 'x'), (5, '${one.id}', 'public')`)
    await sql(`update ${name} set label = label || '!' where id < 3`)
    await sql(`insert into ${name} values (9, null, 'public')`)
    const expected = [
      [1, 3, 5, 1, 9],
      [2, 3, 5, 2, 9],
      [3, 5, 9],
      [1, 2, 3, 4, 5, 1, 2, 9],
    ]
    for (const [index, listener] of listeners.entries()) {
      await listener.hears(expected[index]!.length)
      assert.deepEqual(listener.ids(), expected[index])
    }
  })

  test('a row that changes hands is shown to whom it comes, without what it was before', async () => {
    const { user, sql, table } = stage()
    const name = await table(columns, own)
    const [ofAda, ofBob] = await Promise.all(
      [ada, bob].map(async id => rows(await user(id), { table: name })),
    )
    await sql(`insert into ${name} values (1, '${ada}', 'mine')`)
    await sql(`update ${name} set owner = '${bob}'`)
    await sql(`update ${name} set label = 'his'`)
    await sql(`insert into ${name} values (2, '${ada}', 'end'), (3, '${bob}', 'end')`)
    await Promise.all([ofAda!.hears(2), ofBob!.hears(3)])
    assert.deepEqual(
      ofAda!.changes.map(each => [each.eventType, each.new['label'], each.old]),
      [
        ['INSERT', 'mine', {}],
        ['INSERT', 'end', {}],
      ],
    )
    assert.deepEqual(
      ofBob!.changes.map(each => [each.eventType, each.new['label'], each.old['label']]),
      [
        ['UPDATE', 'mine', undefined],
        ['UPDATE', 'his', 'mine'],
        ['INSERT', 'end', undefined],
      ],
    )
  })

  test('of a row that is gone users are told the key and nothing else', async () => {
    const { user, service, sql, table } = stage()
    const name = await table('a int, b text, secret text, owner uuid, primary key (b, a)', own)
    const listeners = await Promise.all(
      [await user(ada), service()].map(client => rows(client, { table: name })),
    )
    await sql(`insert into ${name} values (1, 'k', 'hidden', null)`)
    await sql(`delete from ${name}`)
    for (const listener of listeners) await listener.hears(1)
    await listeners[1]!.hears(2)
    const { eventType, old, new: now } = listeners[0]!.changes[0]!
    assert.deepEqual([eventType, old, now], ['DELETE', { a: 1, b: 'k' }, {}])
    assert.deepEqual(listeners[1]!.changes[1]!.old, { a: 1, b: 'k', secret: 'hidden', owner: null })
  })

  test('policies read any claim of the token', async () => {
    const { user, sql, table } = stage()
    const policy = `using ((auth.jwt() -> 'app_metadata' ->> 'team') = label)`
    const name = await table(columns, policy)
    const teams = ['red', 'blue']
    const listeners = await Promise.all(
      teams.map(async team => rows(await user(ada, { app_metadata: { team } }), { table: name })),
    )
    await sql(
      `insert into ${name} values (1, null, 'red'), (2, null, 'blue'), (3, null, 'red'), (4, null, 'blue')`,
    )
    for (const listener of listeners) await listener.hears(2)
    assert.deepEqual(
      listeners.map(each => each.ids()),
      [
        [1, 3],
        [2, 4],
      ],
    )
  })

  test('whose policy fails is told of an error; everybody else hears as before', async () => {
    const { user, service, sql, table } = stage()
    const name = await table(columns, `using ((auth.jwt() ->> 'level')::int > 3)`)
    const [broken, good, all] = [
      await rows(await user(ada, { level: 'high' }), { table: name }),
      await rows(await user(bob, { level: 5 }), { table: name }),
      await rows(service(), { table: name }),
    ]
    await sql(`insert into ${name} (id) values (1)`)
    await sql(`insert into ${name} (id) values (2)`)
    for (const listener of [good, all]) await listener.hears(2)
    assert.deepEqual(
      [good.ids(), all.ids()],
      [
        [1, 2],
        [1, 2],
      ],
    )
    await until(() => broken.system.some(told => told.status === 'error'), 'an error')
    assert.equal(broken.system.at(-1)!.extension, 'postgres_changes')
    assert.deepEqual([broken.ids(), broken.statuses], [[], ['SUBSCRIBED']])
  })

  test('columns that a role may not read are left out', async () => {
    const { anon, service, sql, table } = stage()
    const name = await table(columns, 'using (true)')
    await sql(`revoke select on ${name} from anon; grant select (id, owner) on ${name} to anon`)
    const listeners = await Promise.all([anon(), service()].map(client => rows(client, { table: name })))
    await sql(`insert into ${name} values (1, '${ada}', 'secret')`)
    await sql(`update ${name} set label = 'secret, too'`)
    for (const listener of listeners) await listener.hears(2)
    const [ofAnon, ofService] = listeners.map(each => each.changes[1]!)
    assert.deepEqual(
      [ofAnon!.new, ofAnon!.old],
      [
        { id: 1, owner: ada },
        { id: 1, owner: ada },
      ],
    )
    assert.equal(ofService!.new['label'], 'secret, too')
  })

  test('a table without row-level security is for service_role, until it is marked as public', async () => {
    const { user, service, sql, table, manage } = stage()
    const name = await table()
    const other = await table(columns, 'using (true)')
    await sql(`alter table ${name} disable row level security`)
    const wishes = [{ table: name }, { table: other }]
    const [ofUser, ofService] = await Promise.all(
      [await user(ada), service()].map(each => rows(each, ...wishes)),
    )
    await sql(`insert into ${name} (id) values (1)`)
    await sql(`insert into ${other} (id) values (2)`)
    await Promise.all([ofUser!.hears(1), ofService!.hears(2)])
    assert.deepEqual([ofUser!.ids(), ofService!.ids()], [[2], [1, 2]])

    const { status, body } = await manage('PUT', `/realtime/tables/${name}`, { realtime_public: true })
    assert.equal(status, 200, JSON.stringify(body))
    const later = await rows(await user(bob), { table: name })
    await sql(`insert into ${name} (id) values (3)`)
    await Promise.all([later.hears(1), ofUser!.hears(2)])
    assert.deepEqual([later.ids(), ofUser!.ids()], [[3], [2, 3]])
  })

  test('the key of the socket may be the token of a user alone', async () => {
    const { as, token, sql, table } = stage()
    const name = await table(columns, own)
    const listener = await rows(as(token({ sub: ada, role: 'authenticated' })), { table: name })
    await sql(`insert into ${name} values (1, '${bob}', ''), (2, '${ada}', '')`)
    await listener.hears(1)
    assert.deepEqual(listener.ids(), [2])
  })

  test('channels of one socket may be of different users', async () => {
    const { anon, token, sql, table } = stage()
    const name = await table(columns, own)
    // Otherwise the client tells its own token to every channel it has joined.
    const client = anon({ accessToken: async () => null })
    const listeners = [ada, bob].map(() => ear(client, topic(), {}, { table: name }))
    for (const [index, listener] of listeners.entries()) {
      const jwt = token({ sub: [ada, bob][index], role: 'authenticated' })
      listener.channel.updateJoinPayload({ access_token: jwt })
      await listener.join()
    }
    await sql(`insert into ${name} values (1, '${ada}', ''), (2, '${bob}', '')`)
    for (const listener of listeners) await listener.hears(1)
    assert.deepEqual(
      listeners.map(each => each.ids()),
      [[1], [2]],
    )
  })
}
