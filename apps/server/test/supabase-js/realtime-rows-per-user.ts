// Visibility of rows: the same policies as in REST, for every user with their own claims.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../eventually.ts'
import { ada, bob, type Fixture, newSubscriber, rows, topic } from './realtime-fixture.ts'

const own = 'to authenticated using (owner = auth.uid())'
const columns = 'id int primary key, owner uuid, label text'

export function rowsPerUserTests(fixture: () => Fixture): void {
  test('rows per user: users receive their own rows, anon the public ones, service_role all', async () => {
    const { anon, service, signUp, sql, table } = fixture()
    const name = await table(columns, own)
    await sql(`create policy shown on ${name} for select using (label = 'public')`)
    const [one, two] = [await signUp(), await signUp()]
    const subscribers = await Promise.all(
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
    for (const [index, subscriber] of subscribers.entries()) {
      await subscriber.receivesChanges(expected[index]!.length)
      assert.deepEqual(subscriber.ids(), expected[index])
    }
  })

  test('rows per user: a row that changes its owner is shown to the new owner without the old row', async () => {
    const { user, sql, table } = fixture()
    const name = await table(columns, own)
    const [ofAda, ofBob] = await Promise.all(
      [ada, bob].map(async id => rows(await user(id), { table: name })),
    )
    await sql(`insert into ${name} values (1, '${ada}', 'mine')`)
    await sql(`update ${name} set owner = '${bob}'`)
    await sql(`update ${name} set label = 'his'`)
    await sql(`insert into ${name} values (2, '${ada}', 'end'), (3, '${bob}', 'end')`)
    await Promise.all([ofAda!.receivesChanges(2), ofBob!.receivesChanges(3)])
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

  test('rows per user: on DELETE users receive only the key', async () => {
    const { user, service, sql, table } = fixture()
    const name = await table('a int, b text, secret text, owner uuid, primary key (b, a)', own)
    const subscribers = await Promise.all(
      [await user(ada), service()].map(client => rows(client, { table: name })),
    )
    await sql(`insert into ${name} values (1, 'k', 'hidden', null)`)
    await sql(`delete from ${name}`)
    for (const subscriber of subscribers) await subscriber.receivesChanges(1)
    await subscribers[1]!.receivesChanges(2)
    const { eventType, old, new: now } = subscribers[0]!.changes[0]!
    assert.deepEqual([eventType, old, now], ['DELETE', { a: 1, b: 'k' }, {}])
    assert.deepEqual(subscribers[1]!.changes[1]!.old, { a: 1, b: 'k', secret: 'hidden', owner: null })
  })

  test('rows per user: policies can read any claim of the token', async () => {
    const { user, sql, table } = fixture()
    const policy = `using ((auth.jwt() -> 'app_metadata' ->> 'team') = label)`
    const name = await table(columns, policy)
    const teams = ['red', 'blue']
    const subscribers = await Promise.all(
      teams.map(async team => rows(await user(ada, { app_metadata: { team } }), { table: name })),
    )
    await sql(
      `insert into ${name} values (1, null, 'red'), (2, null, 'blue'), (3, null, 'red'), (4, null, 'blue')`,
    )
    for (const subscriber of subscribers) await subscriber.receivesChanges(2)
    assert.deepEqual(
      subscribers.map(each => each.ids()),
      [
        [1, 3],
        [2, 4],
      ],
    )
  })

  test('rows per user: a user whose policy fails gets an error, and the others get the change', async () => {
    const { user, service, sql, table } = fixture()
    const name = await table(columns, `using ((auth.jwt() ->> 'level')::int > 3)`)
    const [broken, good, all] = [
      await rows(await user(ada, { level: 'high' }), { table: name }),
      await rows(await user(bob, { level: 5 }), { table: name }),
      await rows(service(), { table: name }),
    ]
    await sql(`insert into ${name} (id) values (1)`)
    await sql(`insert into ${name} (id) values (2)`)
    for (const subscriber of [good, all]) await subscriber.receivesChanges(2)
    assert.deepEqual(
      [good.ids(), all.ids()],
      [
        [1, 2],
        [1, 2],
      ],
    )
    await eventually(() => broken.system.some(message => message.status === 'error'), 'an error')
    assert.equal(broken.system.at(-1)!.extension, 'postgres_changes')
    assert.deepEqual([broken.ids(), broken.statuses], [[], ['SUBSCRIBED']])
  })

  test('rows per user: columns that a role may not select are omitted', async () => {
    const { anon, service, sql, table } = fixture()
    const name = await table(columns, 'using (true)')
    await sql(`revoke select on ${name} from anon; grant select (id, owner) on ${name} to anon`)
    const subscribers = await Promise.all([anon(), service()].map(client => rows(client, { table: name })))
    await sql(`insert into ${name} values (1, '${ada}', 'secret')`)
    await sql(`update ${name} set label = 'secret, too'`)
    for (const subscriber of subscribers) await subscriber.receivesChanges(2)
    const [ofAnon, ofService] = subscribers.map(each => each.changes[1]!)
    assert.deepEqual(
      [ofAnon!.new, ofAnon!.old],
      [
        { id: 1, owner: ada },
        { id: 1, owner: ada },
      ],
    )
    assert.equal(ofService!.new['label'], 'secret, too')
  })

  test('rows per user: a table without row-level security is visible only to service_role until it is marked public', async () => {
    const { user, service, sql, table, manage } = fixture()
    const name = await table()
    const other = await table(columns, 'using (true)')
    await sql(`alter table ${name} disable row level security`)
    const bindings = [{ table: name }, { table: other }]
    const [ofUser, ofService] = await Promise.all(
      [await user(ada), service()].map(each => rows(each, ...bindings)),
    )
    await sql(`insert into ${name} (id) values (1)`)
    await sql(`insert into ${other} (id) values (2)`)
    await Promise.all([ofUser!.receivesChanges(1), ofService!.receivesChanges(2)])
    assert.deepEqual([ofUser!.ids(), ofService!.ids()], [[2], [1, 2]])

    const { status, body } = await manage('PUT', `/realtime/tables/${name}`, { realtime_public: true })
    assert.equal(status, 200, JSON.stringify(body))
    const later = await rows(await user(bob), { table: name })
    await sql(`insert into ${name} (id) values (3)`)
    await Promise.all([later.receivesChanges(1), ofUser!.receivesChanges(2)])
    assert.deepEqual([later.ids(), ofUser!.ids()], [[3], [2, 3]])
  })

  test('rows per user: a user token works as the key of the socket', async () => {
    const { as, token, sql, table } = fixture()
    const name = await table(columns, own)
    const subscriber = await rows(as(token({ sub: ada, role: 'authenticated' })), { table: name })
    await sql(`insert into ${name} values (1, '${bob}', ''), (2, '${ada}', '')`)
    await subscriber.receivesChanges(1)
    assert.deepEqual(subscriber.ids(), [2])
  })

  test('rows per user: channels of one socket may belong to different users', async () => {
    const { anon, token, sql, table } = fixture()
    const name = await table(columns, own)
    // Otherwise the client sends its own token to every joined channel.
    const client = anon({ accessToken: async () => null })
    const subscribers = [ada, bob].map(() => newSubscriber(client, topic(), {}, { table: name }))
    for (const [index, subscriber] of subscribers.entries()) {
      const jwt = token({ sub: [ada, bob][index], role: 'authenticated' })
      subscriber.channel.updateJoinPayload({ access_token: jwt })
      await subscriber.join()
    }
    await sql(`insert into ${name} values (1, '${ada}', ''), (2, '${bob}', '')`)
    for (const subscriber of subscribers) await subscriber.receivesChanges(1)
    assert.deepEqual(
      subscribers.map(each => each.ids()),
      [[1], [2]],
    )
  })
}
