// 1 §4.2 "Embedded resources" and REST contract §4: which relationships exist and how the query selects one.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertRefused, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create table public.authors (id int primary key, name text not null);
    create table public.posts (id int primary key, author_id int references public.authors, title text);
    create table public.comments (id int primary key, post_id int references public.posts, body text);
    create table public.profiles (id int primary key, author_id int unique references public.authors, motto text);
    insert into public.authors values (1, 'Ada'), (2, 'Alan'), (3, 'Grace');
    insert into public.posts values (1, 1, 'one'), (2, 1, 'two'), (3, 2, 'three'), (4, null, 'orphan');
    insert into public.comments values (1, 1, 'first'), (2, 1, 'second'), (3, 3, 'third');
    insert into public.profiles values (1, 1, 'onward');

    create table public.tags (id int primary key, label text);
    create table public.post_tags (post_id int references public.posts, tag_id int references public.tags, primary key (post_id, tag_id));
    insert into public.tags values (1, 'red'), (2, 'blue');
    insert into public.post_tags values (1, 1), (1, 2), (2, 1);

    create table public.actors (id int primary key, name text);
    create table public.films (id int primary key, title text);
    create table public.roles (film_id int references public.films, actor_id int references public.actors, primary key (film_id, actor_id));
    create table public.stunts (film_id int references public.films, actor_id int references public.actors, primary key (film_id, actor_id));
    insert into public.actors values (1, 'Buster'), (2, 'Greta');
    insert into public.films values (1, 'Steam');
    insert into public.roles values (1, 1), (1, 2);
    insert into public.stunts values (1, 1);

    create table public.addresses (id int primary key, street text);
    create table public.orders (
      id int primary key, item text,
      billing_id int constraint orders_billing references public.addresses,
      shipping_id int constraint orders_shipping references public.addresses
    );
    insert into public.addresses values (1, 'Main'), (2, 'Side');
    insert into public.orders values (1, 'lamp', 1, 2), (2, 'desk', 2, 2);

    create table public.staff (id int primary key, name text, manager_id int references public.staff);
    insert into public.staff values (1, 'Top', null), (2, 'Mid', 1), (3, 'Low', 2), (4, 'Low too', 2), (5, 'E', 4), (6, 'F', 5), (7, 'G', 6);

    create table public.flights (carrier text, number int, city text, primary key (carrier, number));
    create table public.seats (id int primary key, carrier text, number int, foreign key (carrier, number) references public.flights);
    insert into public.flights values ('PL', 1, 'Rome'), ('PL', 2, 'Oslo');
    insert into public.seats values (1, 'PL', 1), (2, 'PL', 2), (3, null, 2);

    create view public.post_list as select id, author_id, title as headline from public.posts;
    create view public.writers as select id, name from public.authors;

    create function public.latest_posts(public.authors) returns setof public.posts language sql stable
      as $$ select * from public.posts where author_id = $1.id order by id desc limit 1 $$;
    create function public.writer(public.posts) returns setof public.authors rows 1 language sql stable
      as $$ select * from public.authors where id = $1.author_id $$;
    create table public.lonely (id int primary key);

    create table public.rooms (house int, number int, name text, primary key (house, number));
    create table public.keys (id int primary key, label text);
    create table public.room_keys (house int, number int, key_id int references public.keys,
      foreign key (house, number) references public.rooms, primary key (house, number, key_id));
    insert into public.rooms values (1, 1, 'hall'), (1, 2, 'attic');
    insert into public.keys values (1, 'brass');
    insert into public.room_keys values (1, 2, 1);

    create table public.events (id int, post_id int references public.posts, day date, primary key (id, day)) partition by range (day);
    create table public.events_2020 partition of public.events for values from ('2020-01-01') to ('2021-01-01');
    insert into public.events values (1, 3, '2020-05-05');
    `,
  )
})
after(() => it.stop())

function returnsRows(what: string, cases: Record<string, unknown>): void {
  for (const [path, expected] of Object.entries(cases))
    test(`1 §4.2 ${what}: ${path}`, async () => assert.deepEqual(await rows.read(path), expected))
}

returnsRows('many-to-one returns an object or null', {
  'posts?select=title,author:authors(name)&id=in.(1,4)&order=id': [
    { title: 'one', author: { name: 'Ada' } },
    { title: 'orphan', author: null },
  ],
  'posts?select=title,authors(*)&id=eq.3': [{ title: 'three', authors: { id: 2, name: 'Alan' } }],
  'seats?select=id,flights(city)&order=id': [
    { id: 1, flights: { city: 'Rome' } },
    { id: 2, flights: { city: 'Oslo' } },
    { id: 3, flights: null },
  ],
})

returnsRows('one-to-many returns an array, which may be empty', {
  'authors?select=name,posts(title)&order=id&posts.order=id': [
    { name: 'Ada', posts: [{ title: 'one' }, { title: 'two' }] },
    { name: 'Alan', posts: [{ title: 'three' }] },
    { name: 'Grace', posts: [] },
  ],
  'posts?select=id,comments(*)&id=eq.3': [{ id: 3, comments: [{ id: 3, post_id: 3, body: 'third' }] }],
  'flights?select=city,seats(id)&order=number': [
    { city: 'Rome', seats: [{ id: 1 }] },
    { city: 'Oslo', seats: [{ id: 2 }] },
  ],
})

returnsRows('a unique foreign key returns an object on both sides', {
  'authors?select=name,profiles(motto)&id=lt.3&order=id': [
    { name: 'Ada', profiles: { motto: 'onward' } },
    { name: 'Alan', profiles: null },
  ],
  'profiles?select=motto,authors(name)': [{ motto: 'onward', authors: { name: 'Ada' } }],
})

returnsRows('many-to-many uses the only junction table', {
  'posts?select=id,tags(label)&id=lt.4&order=id&tags.order=label': [
    { id: 1, tags: [{ label: 'blue' }, { label: 'red' }] },
    { id: 2, tags: [{ label: 'red' }] },
    { id: 3, tags: [] },
  ],
  'tags?select=label,posts(id)&order=id&posts.order=id': [
    { label: 'red', posts: [{ id: 1 }, { id: 2 }] },
    { label: 'blue', posts: [{ id: 1 }] },
  ],
  'films?select=title,actors!stunts(name)': [{ title: 'Steam', actors: [{ name: 'Buster' }] }],
  'films?select=title,cast:actors!roles(name)&cast.order=name': [
    { title: 'Steam', cast: [{ name: 'Buster' }, { name: 'Greta' }] },
  ],
})

returnsRows('composite keys and partitioned tables', {
  'rooms?select=name,keys(label)&order=number': [
    { name: 'hall', keys: [] },
    { name: 'attic', keys: [{ label: 'brass' }] },
  ],
  'keys?select=label,rooms(name)': [{ label: 'brass', rooms: [{ name: 'attic' }] }],
  'events?select=day,posts(title)': [{ day: '2020-05-05', posts: { title: 'three' } }],
  'posts?select=id,events(day)&id=eq.3': [{ id: 3, events: [{ day: '2020-05-05' }] }],
})

returnsRows('the column, the constraint or the junction selects the foreign key', {
  'orders?select=item,billing:addresses!billing_id(street)&id=eq.1': [
    { item: 'lamp', billing: { street: 'Main' } },
  ],
  'orders?select=item,addresses!orders_shipping(street)&id=eq.1': [
    { item: 'lamp', addresses: { street: 'Side' } },
  ],
  'orders?select=b:addresses!billing_id(street),s:addresses!shipping_id(street)&id=eq.1': [
    { b: { street: 'Main' }, s: { street: 'Side' } },
  ],
  'addresses?select=street,orders!shipping_id(id)&orders.order=id&order=id': [
    { street: 'Main', orders: [] },
    { street: 'Side', orders: [{ id: 1 }, { id: 2 }] },
  ],
  'addresses?select=street,orders!orders_billing(id)&order=id': [
    { street: 'Main', orders: [{ id: 1 }] },
    { street: 'Side', orders: [{ id: 2 }] },
  ],
  'authors?select=name,posts!author_id(id)&id=eq.2': [{ name: 'Alan', posts: [{ id: 3 }] }],
  'posts?select=id,author:author_id(name)&id=eq.1': [{ id: 1, author: { name: 'Ada' } }],
  'orders?select=id,billing_id(street)&id=eq.1': [{ id: 1, billing_id: { street: 'Main' } }],
  'orders?select=id,orders_shipping(street)&id=eq.1': [{ id: 1, orders_shipping: { street: 'Side' } }],
})

returnsRows('inner removes base rows without a match, left and the default keep them', {
  'authors?select=name,posts!inner(id)&order=id&posts.order=id': [
    { name: 'Ada', posts: [{ id: 1 }, { id: 2 }] },
    { name: 'Alan', posts: [{ id: 3 }] },
  ],
  'posts?select=id,authors!inner(name)&order=id': [
    { id: 1, authors: { name: 'Ada' } },
    { id: 2, authors: { name: 'Ada' } },
    { id: 3, authors: { name: 'Alan' } },
  ],
  'posts?select=id,authors!left(name)&id=eq.4': [{ id: 4, authors: null }],
  'orders?select=id,addresses!billing_id!inner(street)&addresses.street=eq.Main': [
    { id: 1, addresses: { street: 'Main' } },
  ],
  'orders?select=id,addresses!inner!billing_id(street)&addresses.street=eq.Side': [
    { id: 2, addresses: { street: 'Side' } },
  ],
  'posts?select=id,tags!inner(label)&tags.label=eq.blue': [{ id: 1, tags: [{ label: 'blue' }] }],
  'authors?select=name,posts!inner(id,comments!inner(id))&posts.comments.body=eq.third': [
    { name: 'Alan', posts: [{ id: 3, comments: [{ id: 3 }] }] },
  ],
})

returnsRows('nesting', {
  'authors?select=name,posts(title,comments(body))&id=eq.1&posts.order=id&posts.comments.order=id': [
    {
      name: 'Ada',
      posts: [
        { title: 'one', comments: [{ body: 'first' }, { body: 'second' }] },
        { title: 'two', comments: [] },
      ],
    },
  ],
  'comments?select=body,posts(title,authors(name))&id=eq.3': [
    { body: 'third', posts: { title: 'three', authors: { name: 'Alan' } } },
  ],
  'posts?select=id,authors(name),comments(id),tags(label)&id=eq.3': [
    { id: 3, authors: { name: 'Alan' }, comments: [{ id: 3 }], tags: [] },
  ],
})

returnsRows('a table that refers to itself', {
  'staff?select=name,boss:manager_id(name)&id=lt.3&order=id': [
    { name: 'Top', boss: null },
    { name: 'Mid', boss: { name: 'Top' } },
  ],
  'staff?select=name,team:staff!manager_id(name)&id=eq.2&team.order=id': [
    { name: 'Mid', team: [{ name: 'Low' }, { name: 'Low too' }] },
  ],
})

returnsRows('through a view', {
  'post_list?select=headline,authors(name)&id=eq.3': [{ headline: 'three', authors: { name: 'Alan' } }],
  'authors?select=name,post_list(headline)&id=eq.2': [{ name: 'Alan', post_list: [{ headline: 'three' }] }],
  'posts?select=title,writers(name)&id=eq.3': [{ title: 'three', writers: { name: 'Alan' } }],
  'post_list?select=headline,writers(name)&id=eq.3': [{ headline: 'three', writers: { name: 'Alan' } }],
})

returnsRows('computed relationships', {
  'authors?select=name,latest_posts(title)&id=in.(1,3)&order=id': [
    { name: 'Ada', latest_posts: [{ title: 'two' }] },
    { name: 'Grace', latest_posts: [] },
  ],
  'posts?select=id,writer(name)&id=in.(1,4)&order=id': [
    { id: 1, writer: { name: 'Ada' } },
    { id: 4, writer: null },
  ],
  'authors?select=name,newest:latest_posts(title,comments(id))&id=eq.2': [
    { name: 'Alan', newest: [{ title: 'three', comments: [{ id: 3 }] }] },
  ],
})

test('1 §4.2 the same table can be embedded twice under two names', async () => {
  const path = 'authors?select=a:posts(id),b:posts(title)&id=eq.1&a.id=eq.1&b.id=eq.2'
  assert.deepEqual(await rows.read(path), [{ a: [{ id: 1 }], b: [{ title: 'two' }] }])
})

const nested = (depth: number) => `${'boss:manager_id('.repeat(depth)}id${')'.repeat(depth)}`

test('1 §4.2 five levels of nesting work, six return 400', async () => {
  const [found] = await rows.read(`staff?select=id,${nested(5)}&id=eq.7`)
  assert.deepEqual(found, { id: 7, boss: { boss: { boss: { boss: { boss: { id: 1 } } } } } })
  for (const depth of [6, 7, 50])
    assertRefused(await rows.get(`staff?select=id,${nested(depth)}`), 400, 'PGRST204')
})

test('1 §7 an ambiguous embed returns 400 and lists the candidates', async () => {
  const twoKeys = await rows.get('orders?select=id,addresses(street)')
  assertRefused(twoKeys, 400, 'PGRST201')
  assert.match(twoKeys.text, /orders_billing|billing_id/)
  assert.match(twoKeys.text, /orders_shipping|shipping_id/)
  assertRefused(await rows.get('addresses?select=id,orders(id)'), 400, 'PGRST201')
  const twoJunctions = await rows.get('films?select=title,actors(name)')
  assertRefused(twoJunctions, 400, 'PGRST201')
  assert.match(twoJunctions.text, /roles/)
  assert.match(twoJunctions.text, /stunts/)
})

test('REST contract §5: a missing relationship returns 400, with a hint if a similar one exists', async () => {
  assertRefused(await rows.get('authors?select=id,lonely(id)'), 400, 'PGRST200')
  assertRefused(await rows.get('authors?select=id,nowhere(id)'), 400, 'PGRST200')
  assertRefused(await rows.get('authors?select=id,posts!nokey(id)'), 400, 'PGRST200')
  assertRefused(await rows.get('authors?select=id,post(id)'), 400, 'PGRST200', {
    hint: /Perhaps you meant.*posts/,
  })
})

test('REST contract §5: an unknown column of an embed returns 42703', async () => {
  assertRefused(await rows.get('authors?select=id,posts(titel)'), 400, '42703')
  assertRefused(await rows.get('authors?select=id,posts(id)&posts.titel=eq.x'), 400, '42703')
})

test('REST contract §4: the representation of a write can embed', async () => {
  const prefer = 'return=representation'
  const inserted = await rows.post(
    'posts?select=title,author:authors(name),comments(id)',
    { id: 100, author_id: 3, title: 'new' },
    { prefer },
  )
  assert.equal(inserted.status, 201, inserted.text)
  assert.deepEqual(inserted.body, [{ title: 'new', author: { name: 'Grace' }, comments: [] }])
  const updated = await rows.patch(
    'posts?select=title,authors(name)&id=eq.100',
    { author_id: 2 },
    { prefer, shape: 'alias' },
  )
  assert.equal(updated.status, 200, updated.text)
  assert.deepEqual(updated.body, [{ title: 'new', authors: { name: 'Alan' } }])
  const removed = await rows.delete('posts?select=id,authors(name)&id=eq.100', { prefer })
  assert.equal(removed.status, 200, removed.text)
  assert.deepEqual(removed.body, [{ id: 100, authors: { name: 'Alan' } }])
})

test('1 §9 the native and the alias path embed the same way', async () => {
  const path = 'authors?select=name,posts(id)&id=eq.2'
  for (const shape of ['native', 'alias'] as const)
    assert.deepEqual(await rows.read(path, { shape }), [{ name: 'Alan', posts: [{ id: 3 }] }])
})
