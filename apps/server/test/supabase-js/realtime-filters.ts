// Every filter operator, as text and from the client's builder.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../eventually.ts'
import { ada, type Fixture, newSubscriber } from './realtime-fixture.ts'
import { where } from './realtime-recorder.ts'
import { type Change, idsOf } from './realtime-subscriber.ts'

const columns =
  'id int primary key, stars int, name text, region text, done boolean, price numeric, at timestamptz'
const data = `
  (1, 1, 'Ada', 'a', true, 1.5, '2026-01-01'),
  (2, 2, 'ada', 'b', false, 10, '2026-01-02'),
  (3, 3, 'Bob', 'c', null, 2, null),
  (4, null, 'a,b', 'a', true, null, '2026-01-04'),
  (5, 5, 'say "hi" (\\)', null, false, -1, '2026-01-05'),
  (6, 10, ' spaced ', 'b', null, 100, null)`

/** Rows by id. A null value matches only filters for null. */
const cases: [filter: string | { build(): string }, ids: number[]][] = [
  ['id=eq.3', [3]],
  ['stars=neq.3', [1, 2, 5, 6]],
  ['stars=gt.2', [3, 5, 6]],
  ['stars=gte.2', [2, 3, 5, 6]],
  ['stars=lt.3', [1, 2]],
  ['stars=lte.3', [1, 2, 3]],
  ['region=in.(a,b)', [1, 2, 4, 6]],
  ['name=in.("a,b",Bob)', [3, 4]],
  ['name=eq."a,b"', [4]],
  // Compared as numbers and times, not as text.
  ['price=gt.9', [2, 6]],
  ['at=gte.2026-01-03', [4, 5]],
  ['done=eq.true', [1, 4]],
  ['stars=gt.1,region=eq.b', [2, 6]],
  ['stars=not.in.(1,2)', [3, 5, 6]],
  [where().eq('stars', 3), [3]],
  [where().neq('region', 'a'), [2, 3, 6]],
  [where().gt('stars', 3).lt('price', 50), [5]],
  [where().gte('price', 2), [2, 3, 6]],
  [where().lte('price', 1.5), [1, 5]],
  [where().in('name', ['a,b', 'Ada', 'Ada']), [1, 4]],
  [where().in('stars', [10, 2]), [2, 6]],
  [where().like('name', 'A%'), [1]],
  [where().ilike('name', 'A%'), [1, 2, 4]],
  [where().match('name', '^A.a$'), [1]],
  [where().imatch('name', '^A.a$'), [1, 2]],
  [where().is('region', null), [5]],
  [where().is('done', true), [1, 4]],
  [where().is('done', 'unknown'), [3, 6]],
  [where().isDistinct('region', 'a'), [2, 3, 5, 6]],
  [where().not('region', 'is', null), [1, 2, 3, 4, 6]],
  [where().not('name', 'like', '%a%'), [3]],
  [where().not('stars', 'in', [1, 10]), [2, 3, 5]],
  [where().not('done', 'eq', true), [2, 5]],
  [where().eq('name', 'say "hi" (\\)'), [5]],
  [where().eq('name', ' spaced '), [6]],
  [where().eq('name', 'a,b').eq('region', 'a'), [4]],
  ['', [1, 2, 3, 4, 5, 6]],
]

export function filterTests(fixture: () => Fixture): void {
  test('filters: the builder produces the filter text', () => {
    const filter = where().eq('id', 1).not('name', 'in', ['a', 'b,c'])
    assert.equal(filter.build(), 'id=eq.1,name=not.in.(a,"b,c")')
    assert.equal(filter.toString(), filter.build())
  })

  for (const who of ['service_role', 'a user'] as const)
    test(`filters: every operator selects its rows for ${who}`, async () => {
      const { service, user, sql, table } = fixture()
      const name = await table(columns, 'using (true)')
      const subscriber = newSubscriber(who === 'a user' ? await user(ada) : service())
      const received = cases.map(([filter]) =>
        subscriber.addBinding({ event: 'INSERT', table: name, filter }),
      )
      const marker = subscriber.addBinding({ event: 'DELETE', table: name })
      await subscriber.join()
      await sql(`insert into ${name} values ${data}`)
      await sql(`delete from ${name} where id = 6`)
      await eventually(() => marker.length === 1, 'the last change')
      assert.deepEqual(
        cases.map(([filter], index) => [filterText(filter), idsOf(received[index]!)]),
        cases.map(([filter, ids]) => [filterText(filter), ids]),
      )
    })

  test('filters: a filter on UPDATE applies to the new row', async () => {
    const { user, sql, table } = fixture()
    const name = await table(columns, 'using (true)')
    const subscriber = newSubscriber(await user(ada))
    const binding = { event: 'UPDATE', table: name } as const
    const fromThree = subscriber.addBinding({ ...binding, filter: 'stars=gte.3' })
    const two = subscriber.addBinding({ ...binding, filter: 'stars=eq.2' })
    await subscriber.join()
    await sql(`insert into ${name} (id, stars) values (1, 1), (2, 5)`)
    await sql(`update ${name} set stars = 2; update ${name} set stars = 3 where id = 1`)
    await sql(`update ${name} set stars = 4 where id = 2`)
    await eventually(() => fromThree.length === 2, 'the last update')
    const shown = (changes: Change[]) =>
      changes.map(each => [each.new['id'], each.old['stars'], each.new['stars']])
    assert.deepEqual(shown(fromThree), [
      [1, 2, 3],
      [2, 2, 4],
    ])
    assert.deepEqual(shown(two), [
      [1, 1, 2],
      [2, 5, 2],
    ])
  })

  test('filters: a filter on DELETE may use the key, and other columns only with the service_role key', async () => {
    const { user, service, sql, table } = fixture()
    const name = await table(columns, 'using (true)')
    const binding = { event: 'DELETE', table: name } as const
    const [ofUser, ofService] = [newSubscriber(await user(ada)), newSubscriber(service())]
    const received = [ofUser, ofService].map(each => ({
      byKey: each.addBinding({ ...binding, filter: 'id=in.(1,3)' }),
      byStars: each.addBinding({ ...binding, filter: 'stars=gte.2' }),
      all: each.addBinding(binding),
    }))
    await Promise.all([ofUser.join(), ofService.join()])
    await sql(`insert into ${name} (id, stars) values (1, 1), (2, 2), (3, 3)`)
    for (const id of [1, 2, 3]) await sql(`delete from ${name} where id = ${id}`)
    for (const { all } of received) await eventually(() => all.length === 3, 'three deletes')
    const [one, two] = received
    assert.deepEqual([idsOf(one!.byKey), idsOf(one!.byStars), idsOf(one!.all)], [[1, 3], [], [1, 2, 3]])
    assert.deepEqual(
      [idsOf(two!.byKey), idsOf(two!.byStars), idsOf(two!.all)],
      [
        [1, 3],
        [2, 3],
        [1, 2, 3],
      ],
    )
    assert.deepEqual(one!.all[1]!.old, { id: 2 })
    assert.equal(two!.all[1]!.old['stars'], 2)
  })

  test('filters: equal bindings are merged, and call the handler once', async () => {
    const { service, sql, table } = fixture()
    const name = await table()
    const subscriber = newSubscriber(service())
    const [one, two] = [subscriber.addBinding({ table: name }), subscriber.addBinding({ table: name })]
    const other = subscriber.addBinding({ table: name, filter: 'id=gt.0' })
    await subscriber.join()
    await sql(`insert into ${name} (id) values (1), (2)`)
    await eventually(() => other.length === 2, 'both rows')
    assert.deepEqual([idsOf(one), idsOf(two), idsOf(other)], [[1, 2], [], [1, 2]])
  })
}

const filterText = (filter: string | { build(): string }) =>
  typeof filter === 'string' ? filter : filter.build()
