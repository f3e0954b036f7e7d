// 1 §4.4 and GraphQL contract §9: introspection. Issue: limits of a document.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { buildClientSchema, getIntrospectionQuery, validateSchema } from 'graphql'
import { type GraphqlApi, graphqlProject } from '../graphql.ts'
import type { Caller } from '../rows.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    create type public.mood as enum ('sad', 'happy');
    create table public.authors (id int primary key, name text, mood public.mood, secret text, boss_id int references public.authors);
    create table public.posts (id bigint primary key, author_id int references public.authors, doc jsonb, tags text[], at timestamptz, key uuid, day date, clock time, price numeric, address inet);
    revoke select on public.authors from anon; grant select (id, name) on public.authors to anon;
    create table public.private (id int primary key);
    revoke all on public.private from anon, authenticated;
    insert into public.authors (id, name) values (1, 'Ada');
    `,
  )
})
after(() => it.stop())

const callers: Caller[] = ['anon', 'service_role', { sub: '3f2f7f0e-0d3c-4d6a-9d65-2f1f0a4a2c11' }]
const schemaOf = async (as: Caller) => buildClientSchema(await api.data(getIntrospectionQuery(), { as }))

test('1 §4.4 the standard introspection query describes a valid schema to every key', async () => {
  for (const as of callers) {
    const schema = await schemaOf(as)
    assert.deepEqual(validateSchema(schema), [])
    assert.ok(schema.getQueryType()?.getFields()['postsCollection'])
    assert.ok(schema.getMutationType()?.getFields()['insertIntopostsCollection'])
    assert.equal(schema.getSubscriptionType() ?? null, null)
  }
})

test('1 §4.4 introspection accepts the options of current tools', async () => {
  for (const options of [
    { descriptions: false },
    {
      specifiedByUrl: true,
      schemaDescription: true,
      directiveIsRepeatable: true,
      inputValueDeprecation: true,
      oneOf: true,
    },
  ])
    buildClientSchema(await api.data(getIntrospectionQuery(options)))
})

test('GraphQL contract §9: the scalars and directives', async () => {
  const schema = await schemaOf('anon')
  for (const name of [
    'ID',
    'Int',
    'Float',
    'String',
    'Boolean',
    'BigInt',
    'BigFloat',
    'Date',
    'Time',
    'Datetime',
    'JSON',
    'UUID',
    'Opaque',
    'Cursor',
  ])
    assert.ok(schema.getType(name), name)
  const directives = schema.getDirectives().map(({ name }) => name)
  assert.ok(directives.includes('include') && directives.includes('skip'), directives.join())
})

test('GraphQL contract §9: types depend on the role', async () => {
  const anon = await schemaOf('anon')
  const service = await schemaOf('service_role')
  assert.equal(anon.getType('private'), undefined)
  assert.ok(service.getType('private'))
  const fields = (schema: typeof anon) => Object.keys((schema.getType('authors') as any).getFields())
  assert.ok(!fields(anon).includes('secret'))
  assert.ok(fields(service).includes('secret'))
})

test('GraphQL contract §9: introspection beside rows, and in parts', async () => {
  const document = `{ __type(name: "mood") { kind enumValues { name } } none: __type(name: "Missing") { name } postsCollection { totalCount } authorsByPk(id: 1) { __typename name } }`
  assert.deepEqual(await api.data(document, { as: 'service_role' }), {
    __type: { kind: 'ENUM', enumValues: [{ name: 'sad' }, { name: 'happy' }] },
    none: null,
    postsCollection: { totalCount: 0 },
    authorsByPk: { __typename: 'authors', name: 'Ada' },
  })
  const byVariable = 'query($name: String!) { __type(name: $name) { kind } }'
  assert.deepEqual(await api.data(byVariable, { variables: { name: 'posts' } }), {
    __type: { kind: 'OBJECT' },
  })
  assert.deepEqual(await api.data('{ __schema { queryType { name @skip(if: true) kind } } }'), {
    __schema: { queryType: { kind: 'OBJECT' } },
  })
})

test('GraphQL contract §1: introspection fields keep their place in the document', async () => {
  const document =
    '{ d: __typename c: authorsByPk(id: 1) { name } b: __type(name: "Node") { name } a: postsCollection { totalCount } }'
  assert.deepEqual(Object.keys(await api.data(document)), ['d', 'c', 'b', 'a'])
})

test('GraphQL contract §4: every type is a Node', async () => {
  const schema = await schemaOf('service_role')
  const node = schema.getType('Node') as any
  const possible = schema
    .getPossibleTypes(node)
    .map(({ name }) => name)
    .sort()
  assert.deepEqual(possible, ['authors', 'posts', 'private'])
})

const nested = (depth: number) =>
  '{ authorsByPk(id: 1) '.concat('{ boss '.repeat(depth), '{ id }', '}'.repeat(depth), ' }')

test('Issue: a deep, wide or cyclic document is 200 with a named error, quickly', async () => {
  assert.deepEqual(await api.data(nested(5), { as: 'service_role' }), { authorsByPk: { boss: null } })
  const bomb = Array.from(
    { length: 25 },
    (_, i) => `fragment F${i} on authors { ...F${i + 1} a${i}: boss { ...F${i + 1} } }`,
  ).join(' ')
  const documents = {
    deep: nested(200),
    veryDeep: nested(20_000),
    aliases: `{ ${Array.from({ length: 5000 }, (_, i) => `a${i}: authorsByPk(id: 1) { id }`).join(' ')} }`,
    bomb: `{ authorsByPk(id: 1) { ...F0 } } ${bomb} fragment F25 on authors { id }`,
    cycle:
      '{ authorsByPk(id: 1) { ...A } } fragment A on authors { boss { ...B } } fragment B on authors { ...A }',
    lists: `{ authorsCollection(filter: { or: ${'['.repeat(20_000)}${']'.repeat(20_000)} }) { totalCount } }`,
    filters: `{ authorsCollection(filter: ${'{ not: '.repeat(5000)}{}${' }'.repeat(5000)}) { totalCount } }`,
  }
  for (const [what, document] of Object.entries(documents)) {
    const began = Date.now()
    assert.notEqual(await api.error(document, { as: 'service_role' }), '', what)
    assert.ok(Date.now() - began < 5000, `${what} took ${Date.now() - began} ms`)
  }
})

test('Issue: deep introspection is limited, and the platform answers afterwards', async () => {
  const ofType = '{ name ofType '.repeat(500)
  await api.error(`{ __schema { types { fields { type ${ofType} { name } ${'}'.repeat(500)} } } } }`)
  const fields = '{ fields { type '.repeat(15)
  await api.error(`{ __schema { types ${fields} { name } ${'} }'.repeat(15)} } }`)
  assert.deepEqual(await api.data('{ __typename }'), { __typename: 'Query' })
})
