// Corners of embedding and of the query grammar, as PostgREST has them.
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { rowsProject } from './rows-project.ts'

const { rows, owner } = rowsProject()

before(() =>
  owner(`
    create table processes (id int primary key, name text, factory_id int);
    create table factories (id int primary key, name text, info json);
    alter table processes add foreign key (factory_id) references factories;
    insert into factories values (1, 'north', '{"a":1}'), (2, 'south', '{"a":2}');
    insert into processes values (1, 'cut', 1), (2, 'weld', 1), (3, 'pack', 2);

    create table staff (id int primary key, name text, boss int references staff);
    insert into staff values (1, 'ada', null), (2, 'bob', 1), (3, 'cy', 1);

    create table client (id int primary key, name text);
    create table orders (id int primary key, client int references client);
    create view client_view as select * from client;
    insert into client values (1, 'c1');
    insert into orders values (1, 1);

    create table people (id int primary key, name text);
    create table friends (a int references people, b int references people, primary key (a, b));

    create table cars (id int, year int, name text, primary key (id, year)) partition by list (year);
    create table cars_2020 partition of cars for values in (2020);
    create table cars_2021 partition of cars for values in (2021);
    create table parts (id int primary key, car int, year int, foreign key (car, year) references cars (id, year));
    insert into cars values (1, 2020, 'old'), (2, 2021, 'new');
    insert into parts values (1, 1, 2020), (2, 2, 2021)`),
)

const get = async (path: string) => {
  const { status, body } = await rows('GET', path)
  assert.equal(status, 200, `${path}: ${JSON.stringify(body)}`)
  return body
}
const ids = async (path: string) => (await get(path)).map(({ id }: { id: number }) => id)

test('corners: an empty spread and an empty embed add nothing and change no number of rows', async () => {
  const north = [{ name: 'north' }, { name: 'south' }]
  for (const empty of ['...processes()', 'processes()', '...processes(...factories())'])
    assert.deepEqual(await get(`factories?select=name,${empty}&order=id`), north, empty)
  assert.deepEqual(await get('processes?select=name,...factories()&id=eq.1'), [{ name: 'cut' }])
  assert.deepEqual(await ids('factories?select=id,processes!inner()&processes.name=eq.pack'), [2])
})

test('corners: a table that refers to itself embeds its children by its name, and the parent by the column', async () => {
  assert.deepEqual(await get('staff?select=name,staff(name)&id=eq.1'), [
    { name: 'ada', staff: [{ name: 'bob' }, { name: 'cy' }] },
  ])
  assert.deepEqual(await get('staff?select=name,boss(name)&id=eq.2'), [
    { name: 'bob', boss: { name: 'ada' } },
  ])
})

test('corners: a foreign key column with the name of its table is not ambiguous beside a view on that table', async () => {
  assert.deepEqual(await get('orders?select=id,client(name)'), [{ id: 1, client: { name: 'c1' } }])
  assert.deepEqual(await get('orders?select=id,client_view(name)'), [{ id: 1, client_view: { name: 'c1' } }])
})

test('corners: the error about several relationships lists each choice once', async () => {
  const { status, body } = await rows('GET', 'people?select=people!friends(name)')
  assert.equal(status, 400)
  assert.equal(body.hint.match(/'people!friends'/g).length, 1, body.hint)
})

test('corners: partitions are no relations of their own, and a partitioned table embeds and is embedded', async () => {
  assert.equal((await rows('GET', 'cars_2020')).status, 404)
  assert.deepEqual(await get('cars?select=name,parts(id)&order=id'), [
    { name: 'old', parts: [{ id: 1 }] },
    { name: 'new', parts: [{ id: 2 }] },
  ])
  assert.deepEqual(await get('parts?select=id,cars(name)&order=id'), [
    { id: 1, cars: { name: 'old' } },
    { id: 2, cars: { name: 'new' } },
  ])
})

test('corners: rows with an aggregate can be ordered by a spread relation', async () => {
  const select = 'select=...factories(factory:name),count()'
  assert.deepEqual(await get(`processes?${select}&order=factories(name).desc`), [
    { factory: 'south', count: 1 },
    { factory: 'north', count: 2 },
  ])
})

test('corners: a spread relation may embed relations, also beside an aggregate', async () => {
  const factory = { name: 'south', processes: [{ id: 3 }] }
  assert.deepEqual(await get('processes?select=id,...factories(name,processes(id))&id=eq.3'), [
    { id: 3, ...factory },
  ])
  assert.deepEqual(await get('processes?select=...factories(name,processes(id)),count()&id=eq.3'), [
    { ...factory, count: 1 },
  ])
  assert.deepEqual(await get('processes?select=...factories(info),count()&id=eq.3'), [
    { info: { a: 2 }, count: 1 },
  ])
})

test('corners: lists and groups may hold blanks', async () => {
  assert.deepEqual(await ids('processes?id=in.(%20)'), [])
  assert.deepEqual(await ids('processes?id=in.(%201,%202%20)&order=id'), [1, 2])
  assert.deepEqual(await ids('processes?name=in.(%20"cut"%20,%20"weld"%20)&order=id'), [1, 2])
  assert.deepEqual(await ids('processes?name=in.%20(cut)'), [1])
  assert.deepEqual(
    await ids('processes?or=(%20id.eq.1%20,%20and%20(%20id.gt.1%20,%20id.lt.3%20)%20)&order=id'),
    [1, 2],
  )
  assert.deepEqual(await ids('processes?or=(name.in.%20(%20"cut"%20),id.eq.3)&order=id'), [1, 3])
})
