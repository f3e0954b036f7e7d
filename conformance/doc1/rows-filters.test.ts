// 1 §4.2 and REST contract §4: filters: every operator and the values it accepts.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertRefused, assertStatus, type RowsApi, rowsProject } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let rows: RowsApi
before(async () => {
  it = await target()
  rows = await rowsProject(
    it,
    `
    create type public.mood as enum ('sad', 'ok', 'happy');
    create table public.people (
      id int primary key, name text, age int, score numeric, active boolean, mood public.mood, born date, note text
    );
    insert into public.people values
      (1, 'Ada', 36, 9.5, true, 'happy', '1815-12-10', ''),
      (2, 'Alan', 41, 8.25, false, 'sad', '1912-06-23', 'a.b:c(d)'),
      (3, 'Grace', 85, 9.5, null, 'ok', '1906-12-09', 'x,y'),
      (4, 'edsger', null, null, true, null, null, null),
      (5, '50% off_now*', 7, 0, false, 'ok', '2000-01-01', 'say "hi" \\ bye');

    create table public.things (
      id int primary key, tags text[], numbers int[], span int4range, document jsonb, body text, words tsvector
    );
    insert into public.things values
      (1, '{red,green}', '{1,2,3}', '[1,5)', '{"a":1,"b":{"c":[10,20,{"d":"deep"}]}}', 'The quick brown fox', 'quick:1 fox:2'),
      (2, '{blue}', '{3,4}', '[5,10)', '{"a":2,"tier":"gold","stats":{"count":12}}', 'A lazy dog sleeps', 'lazy:1 dog:2'),
      (3, '{}', '{}', '[20,30)', '{"a":10,"tier":"tin","stats":{"count":5}}', 'Foxes and dogs are running', 'fox:1 dog:2 run:3'),
      (4, null, null, null, null, null, null);
    update public.things set words = to_tsvector('english', body);

    create table public.typed (id int primary key, w varchar(10), c char(3), u uuid, ip inet, i interval, ts timestamptz, bits bit(3), list jsonb[]);
    insert into public.typed values (1, 'abc', 'a', '6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11', '10.0.0.1', '26 hours', '2020-01-01 10:00+00', B'101', '{}');
    insert into public.typed (id) values (2);

    create table public."Odd names" ("a.b" int, "with space" int, "ümläut" int, "a-b" int, "in" int);
    insert into public."Odd names" values (1, 2, 3, 4, 5), (10, 20, 30, 40, 50);
    `,
  )
})
after(() => it.stop())

const idsOf = async (query: string, table = 'people'): Promise<number[]> =>
  (await rows.read(`${table}?${query}&select=id&order=id`)).map(({ id }: { id: number }) => id)
const all = [1, 2, 3, 4, 5]

/** One test per filter, with the ids of the rows that match. */
function matches(what: string, table: string, cases: Record<string, number[]>): void {
  for (const [filter, ids] of Object.entries(cases))
    test(`1 §4.2 ${what}: ${filter}`, async () => assert.deepEqual(await idsOf(filter, table), ids))
}

function rejects(what: string, cases: string[], code?: string): void {
  for (const query of cases)
    test(`1 §4.2 ${what}: ${query}`, async () => {
      const reply = await rows.get(query)
      if (code) assertRefused(reply, 400, code)
      else assertStatus(reply, 400)
    })
}

matches('comparisons', 'people', {
  'id=eq.2': [2],
  'name=eq.Ada': [1],
  'name=eq.ada': [],
  'age=neq.36': [2, 3, 5],
  'age=gt.41': [3],
  'age=gte.41': [2, 3],
  'age=lt.36': [5],
  'age=lte.36': [1, 5],
  'score=eq.9.5': [1, 3],
  'born=lt.1900-01-01': [1],
  'mood=eq.ok': [3, 5],
  'mood=gt.sad': [1, 3, 5],
  'active=eq.true': [1, 4],
  'age=isdistinct.36': [2, 3, 4, 5],
})

matches('everything after the operator is the value', 'people', {
  'note=eq.a.b:c(d)': [2],
  'note=eq.x,y': [3],
  'note=eq.': [1],
  'note=eq.say "hi" \\ bye': [5],
  'name=eq."Ada"': [],
  'name=eq.50%25 off_now*': [5],
  "name=eq.' or 1=1 --": [],
})

matches('patterns', 'people', {
  'name=like.A*': [1, 2],
  'name=like.*a*': [1, 2, 3],
  'name=like.A%25': [1, 2],
  'name=like._da': [1],
  'name=ilike.a*': [1, 2],
  'name=ilike.E*': [4],
  'name=match.^A[dl]a': [1, 2],
  'name=match.^a': [],
  'name=imatch.^a': [1, 2],
})

matches('quantifiers', 'people', {
  'name=like(any).{A*,G*}': [1, 2, 3],
  'name=like(all).{A*,*n}': [2],
  'name=ilike(any).{a*,*GER}': [1, 2, 4],
  'name=ilike(all).{A*,*A*}': [1, 2],
  'name=match(any).{^A,^e}': [1, 2, 4],
  'name=imatch(all).{^a,n$}': [2],
  'id=eq(any).{1,3}': [1, 3],
  'age=gt(all).{7,36}': [2, 3],
  'age=gte(any).{85,100}': [3],
  'age=lt(any).{8,37}': [1, 5],
  'age=lte(all).{36,41}': [1, 5],
  'name=not.like(any).{A*,G*}': [4, 5],
  'id=eq(all).{}': all,
  'id=eq(any).{}': [],
})

matches('in', 'people', {
  'id=in.(1,3)': [1, 3],
  'name=in.(Ada,Grace)': [1, 3],
  'note=in.("x,y",nothing)': [3],
  'note=in.("a.b:c(d)")': [2],
  'note=in.("say \\"hi\\" \\\\ bye")': [5],
  'mood=in.(ok,sad)': [2, 3, 5],
  'id=not.in.(1,3)': [2, 4, 5],
})

matches('columns of every type', 'typed', {
  'w=eq.abc': [1],
  'w=in.(abc,d)': [1],
  'w=like(any).{a*,b*}': [1],
  'c=eq.a': [1],
  'u=eq.6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11': [1],
  'u=in.(6f1f0a3e-7d0b-4f6e-9a59-6b5f0a8b2c11)': [1],
  'u=is.null': [2],
  'ip=eq.10.0.0.1': [1],
  'i=gt.1 day': [1],
  'i=in.("26:00:00")': [1],
  'ts=eq.2020-01-01T12:00:00%2B02:00': [1],
  'ts=gte.2020-01-01': [1],
  'bits=eq.101': [1],
  'list=cs.{}': [1],
})

test('1 §4.2 an empty in list matches no row, negated every row, for every column type', async () => {
  for (const column of ['id', 'name', 'score', 'active', 'mood', 'born']) {
    assert.deepEqual(await idsOf(`${column}=in.()`), [], column)
    assert.deepEqual(await idsOf(`${column}=not.in.()`), all, column)
  }
  for (const column of ['tags', 'span', 'document', 'words'])
    assert.deepEqual(await idsOf(`${column}=in.()`, 'things'), [], column)
})

matches('is accepts null, true, false and unknown, in upper or lower case', 'people', {
  'age=is.null': [4],
  'age=not.is.null': [1, 2, 3, 5],
  'active=is.true': [1, 4],
  'active=is.false': [2, 5],
  'active=is.unknown': [3],
  'active=not.is.true': [2, 3, 5],
  'age=is.NULL': [4],
  'active=is.True': [1, 4],
})

rejects(
  'is with any other value returns 400',
  ['age=is.not_null', 'age=is.5', 'age=is.', 'active=is.yes', 'age=not.is.nil'].map(
    filter => `people?${filter}`,
  ),
  'PGRST100',
)

matches('not works before every operator', 'people', {
  'age=not.eq.36': [2, 3, 5],
  'age=not.gt.36': [1, 5],
  'name=not.like.A*': [3, 4, 5],
  'name=not.imatch.^a': [3, 4, 5],
  'mood=not.eq.ok': [1, 2],
  'age=not.isdistinct.36': [1],
})

matches('several filters are joined with AND, also on one column', 'people', {
  'age=gt.10&age=lt.50': [1, 2],
  'age=gt.10&active=is.true': [1],
  'id=gt.1&id=lt.4&id=neq.3': [2],
})

matches('full text on a tsvector', 'things', {
  'words=fts.fox': [1, 3],
  'words=fts.fox %26 dog': [3],
  'words=fts.fox | lazi': [1, 2, 3],
  'words=fts(english).foxes': [1, 3],
  'words=plfts(english).running dogs': [3],
  'words=phfts(english).quick brown': [1],
  'words=phfts(english).brown quick': [],
  'words=wfts(english).dog -lazy': [3],
  'words=wfts(english)."quick brown" or lazy': [1, 2],
  'words=not.fts(english).fox': [2],
})

matches('full text on a text column', 'things', {
  'body=fts(english).fox': [1, 3],
  'body=plfts(english).lazy dogs': [2],
  'body=phfts(english).brown fox': [1],
  'body=wfts(english).foxes -quick': [3],
  'body=fts(simple).foxes': [3],
  'body=not.fts(english).dog': [1],
})

matches('arrays', 'things', {
  'tags=cs.{red}': [1],
  'tags=cs.{red,green}': [1],
  'tags=cd.{red,green,blue}': [1, 2, 3],
  'tags=ov.{blue,green}': [1, 2],
  'numbers=cs.{3}': [1, 2],
  'numbers=cd.{1,2,3}': [1, 3],
  'numbers=ov.{4,5}': [2],
  'tags=not.cs.{red}': [2, 3],
  'tags=eq.{blue}': [2],
})

matches('ranges', 'things', {
  'span=cs.[2,3]': [1],
  'span=cd.[0,12)': [1, 2],
  'span=ov.[4,6)': [1, 2],
  'span=sl.[15,16)': [1, 2],
  'span=sr.[10,15)': [3],
  'span=nxr.[0,10)': [1, 2],
  'span=nxl.[5,6)': [2, 3],
  'span=adj.[10,20)': [2, 3],
  'span=not.sl.[15,16)': [3],
})

matches('JSON containment', 'things', {
  'document=cs.{"a":1}': [1],
  'document=cs.{"stats":{"count":12}}': [2],
  'document=cd.{"a":2,"tier":"gold","stats":{"count":12},"more":0}': [2],
})

matches('JSON paths', 'things', {
  'document->>tier=eq.gold': [2],
  'document->>tier=in.(gold,tin)': [2, 3],
  'document->>tier=like.*i*': [3],
  'document->>tier=is.null': [1, 4],
  'document->stats->>count=eq.12': [2],
  'document->stats->count=gt.5': [2],
  'document->a=eq.10': [3],
  'document->a=gt.1': [2, 3],
  'document->b->c->0=eq.10': [1],
  'document->b->c->2->>d=eq.deep': [1],
  'document->b->c->>1=eq.20': [1],
  'document->b->c=cs.[20]': [1],
  'document->>nothing=eq.1': [],
})

rejects('a quoted JSON key returns 400', [
  'things?document->>"tier"=eq.gold',
  "things?document->>'tier'=eq.gold",
  'things?document->"stats"->>count=eq.12',
  'things?select=document->"tier"',
  'things?select=x:document->>"tier"',
  'things?order=document->>"tier"',
  'things?or=(document->>"tier".eq.gold,id.eq.1)',
])

rejects('a JSON key must be a bare identifier or an integer', [
  'things?document->>some-key=eq.1',
  'things?select=document->>some-key',
  'things?order=document->>some-key',
  'things?document->>1a=eq.1',
  'things?select=x:document->>größe',
  'things?document->>a$b=eq.1',
  'things?document->>=eq.1',
  'things?document->=eq.1',
])

rejects(
  'an invalid filter returns 400',
  ['5', 'eq', 'foo.1', 'eqx.1', 'not.1', 'not.foo.1', ''].map(value => `people?id=${value}`),
  'PGRST100',
)

rejects('only some operators accept a quantifier', [
  'people?id=neq(any).{1,2}',
  'people?id=in(any).{1,2}',
  'people?id=eq(some).{1,2}',
  'people?id=eq().{1,2}',
])

rejects(
  'a value that the column type cannot represent returns 400',
  ['id=eq.abc', 'id=in.(1,x)', 'id=gt.'].map(filter => `people?${filter}`),
  '22P02',
)
rejects('a value of the wrong type returns 400', [
  'people?born=eq.yesterdays',
  'people?mood=eq.elated',
  'people?id=eq.99999999999999999999',
  'people?name=match.(',
  'people?id=eq(any).{1',
  'things?words=fts.fox dog',
  'things?document=cs.{broken',
])

test('REST contract §5: an unknown column in a filter returns 42703 with a hint', async () => {
  assertRefused(await rows.get('people?nome=eq.x'), 400, '42703', { hint: /Perhaps you meant.*name/ })
})

test('REST contract §4: quoted keys can contain dots, spaces and any letter', async () => {
  for (const key of ['"a.b"', 'with space', '"with space"', 'ümläut', 'a-b', '"in"', 'in']) {
    const found = await rows.read(`Odd names?${key}=lt.6`)
    assert.deepEqual(found, [{ 'a.b': 1, 'with space': 2, ümläut: 3, 'a-b': 4, in: 5 }], key)
  }
})

test('1 §9 the native and the alias path accept the same filters', async () => {
  const query = 'people?age=not.in.(36,7)&name=ilike(any).{a*,g*}&select=id&order=id'
  assert.deepEqual(await rows.read(query, { shape: 'native' }), [{ id: 2 }, { id: 3 }])
  assert.deepEqual(await rows.read(query, { shape: 'alias' }), [{ id: 2 }, { id: 3 }])
})

test('REST contract §1: a space may be sent as + or percent-encoded', async () => {
  const search = new URLSearchParams({ select: 'id', note: 'eq.say "hi" \\ bye' })
  const path = `/v1/rest/${rows.project.id}/people?${search}`
  assert.match(path, /say\+/)
  const reply = await it.call('GET', path, { apikey: rows.project.anon_key })
  assert.deepEqual(reply.body, [{ id: 5 }])
})

test('case 44: a NUL or invalid UTF-8 in a filter returns 4xx', async () => {
  for (const value of ['eq.a%00b', 'eq.%ff', 'eq.%ed%a0%80']) {
    const path = `/v1/rest/${rows.project.id}/people?name=${value}`
    const reply = await it.call('GET', path, { apikey: rows.project.anon_key })
    assert.ok(reply.status >= 400 && reply.status < 500, `${value}: ${reply.status} ${reply.text}`)
  }
})
