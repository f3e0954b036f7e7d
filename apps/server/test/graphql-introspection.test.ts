// The schema of a project: how it is shown, what that may cost, and where it is built.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildSchema, executeSync, type GraphQLSchema, getIntrospectionQuery, Kind, parse } from 'graphql'
import { Refusal } from '#src/kernel/errors.ts'
import { atOnce } from '#src/kernel/slices.ts'
import type { Catalog } from '#src/query/catalog.ts'
import { readFacts } from '#src/query/catalog-facts.ts'
import { catalogFrom } from '#src/query/catalog-from.ts'
import { reflectionFrom } from '#src/query/reflection.ts'
import { DocumentProblem } from '#src/services/graphql/compile/problem.ts'
import { withSchemaFields } from '#src/services/graphql/compile/schema-fields.ts'
import { createEngine } from '#src/services/graphql/engine.ts'
import { openEngines, reflectedSize, sizeOf } from '#src/services/graphql/engines.ts'
import { introspect, maxLengthOf } from '#src/services/graphql/introspection.ts'
import type { ToThread } from '#src/services/graphql/thread-messages.ts'
import { createThreads, UnknownEngine } from '#src/services/graphql/threads.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { graphqlProject } from './graphql-project.ts'

const { data, messages, owner } = graphqlProject(`
  create table notes (id int primary key, body text);
  alter table notes disable row level security;
  create function running() returns text stable language sql as 'select current_query()'`)

const standard = getIntrospectionQuery({
  specifiedByUrl: true,
  directiveIsRepeatable: true,
  schemaDescription: true,
  inputValueDeprecation: true,
  oneOf: true,
})

const times = (count: number, piece: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => piece(index)).join(' ')

const example = buildSchema(`
  "Has \\"quotes\\" and \\n lines" type Query { node(id: ID!, deep: [[In!]!] = [[{a: A}]]): Node things: [Thing!]! @deprecated }
  interface Node { id: ID! }
  type Thing implements Node { id: ID! kind(old: Int @deprecated(reason: "old")): Kind either: Either }
  union Either = Query | Thing
  enum Kind { A B @deprecated }
  input In { a: Kind = A, more: In, gone: Int @deprecated }
  scalar Date @specifiedBy(url: "https://example.com")`)
const deep = (levels: number): GraphQLSchema =>
  buildSchema(`type Query { ${times(levels, n => `f${n}: T${n}`)} }
    ${times(
      levels,
      n => `type T${n} { ${times(20, at => `f${at}(a: [[I${n}!]!]! b: I${n}): T${(n + at) % levels}`)} }
      input I${n} { ${times(20, at => `f${at}: [I${(n + at) % levels}!]`)} }`,
    )}`)
const labels = buildSchema(`type Query { a: L } enum L { ${times(5000, n => `L${n}`)} }`)

function shown(schema: GraphQLSchema, text: string, variables: Record<string, unknown> = {}) {
  const document = parse(text)
  const node = document.definitions.find(each => each.kind === Kind.OPERATION_DEFINITION)!
  const work = introspect(schema, { document, node }, variables, maxLengthOf(schema))
  let slices = 1
  for (;;) {
    const { done, value } = work.next()
    if (!done) slices++
    else {
      const parsed = Object.entries(value).map(([name, each]) => [
        name,
        JSON.parse(Buffer.from(each).toString()),
      ])
      return { slices, data: Object.fromEntries(parsed), length: Object.values(value)[0]?.length ?? 0 }
    }
  }
}

test('graphql introspection: answers as the reference library does', () => {
  const documents = [
    standard,
    '{ a: __schema { ...f types { name } } ...g ... { c: __schema { __typename } } } fragment f on __Schema { types { kind ...h } } fragment h on __Type { fields { name } } fragment g on Query { b: __type(name: "In") { ...h inputFields { name defaultValue } } }',
    '{ __type(name: "Nothing") { name } __schema { directives { name locations args(includeDeprecated: true) { name } } } }',
    'query($n: String!, $d: Boolean! = true, $s: Boolean!) { __type(name: $n) { fields(includeDeprecated: $d) { name args { name } type { possibleTypes { name } } } name @skip(if: $s) kind @include(if: $s) enumValues { name } } x: __schema @skip(if: $s) { description } y: __schema { types { name @skip(if: true) } } }',
  ]
  for (const document of documents)
    for (const s of [true, false]) {
      const variables = { n: 'Thing', s, d: s }
      const expected = executeSync({ schema: example, document: parse(document), variableValues: variables })
      assert.equal(expected.errors, undefined)
      assert.equal(
        JSON.stringify(shown(example, document, variables).data),
        JSON.stringify(expected.data),
        document,
      )
    }
})

test('graphql introspection: the standard query passes on every schema, in short slices', () => {
  const aliases = `{ ${times(90, n => `a${n}: __schema { types { name } }`)} }`
  assert.ok(shown(example, aliases).slices > 1)
  for (const schema of [example, deep(3), deep(60), labels]) {
    const { slices, length } = shown(schema, standard)
    assert.ok(length * 1.2 < maxLengthOf(schema), `${length} of ${maxLengthOf(schema)}`)
    assert.ok(slices >= length / 40_000, `${slices} slices for ${length} characters`)
  }
})

test('graphql introspection: an answer that is many times longer is refused', () => {
  const schema = deep(60)
  const all = '__schema { types { name fields { name type { name ofType { name } } } } }'
  const inputs = '__schema { types { fields { args { type { inputFields { name type { name } } } } } } }'
  const long = `${'a'.repeat(40_000)}: name`
  const attacks = [
    `{ ${times(100, n => `a${n}: ${all}`)} }`,
    `{ ${times(90, n => `a${n}: ${inputs}`)} }`,
    `{ __schema { types { fields { ${long} } } } }`,
    '{ __schema { types { fields { type { fields { type { fields { type { fields { name } } } } } } } } } }',
  ]
  for (const attack of attacks)
    assert.throws(() => shown(schema, attack), DocumentProblem, attack.slice(0, 80))
  assert.ok(shown(schema, `{ a: ${all} b: ${all} }`))
})

test('graphql introspection: a project refuses many aliases and answers the standard query', async () => {
  const names = times(90, n => `${'a'.repeat(200)}${n}: name`)
  const [message] = await messages(`{ __schema { types { fields { ${names} } } } }`)
  assert.match(message!, /The answer about the schema would be too long: ask for fewer levels/)
  assert.ok((await data(standard)).__schema.types.length > 10)
})

test('graphql introspection: a text in a row is not taken for its placeholder', async () => {
  const { running } = await data('{ running __schema { queryType { name } } }')
  const placeholder = /'([^']* __schema)'/.exec(running)![1]!
  await owner(`insert into notes values (1, '${placeholder}')`)
  const read = await data(
    '{ notesCollection { edges { node { body } } } __schema { queryType { name } } a: __typename }',
  )
  assert.deepEqual(read, {
    notesCollection: { edges: [{ node: { body: placeholder } }] },
    __schema: { queryType: { name: 'Query' } },
    a: 'Query',
  })
})

test('graphql introspection: its texts replace members of the answer, and nothing in them', () => {
  const answer = String.raw`{"data":{"x":{"a":"schema a","l":["a","schema a"]},"y" : "a","\"a":"{\"a\":","a" : "schema a", "b":"schema b","c":"schema a"}}`
  const parts = withSchemaFields(Buffer.from(answer), {
    a: Buffer.from('{"b":"z"}'),
    b: Buffer.from('null'),
  })
  assert.deepEqual(JSON.parse(Buffer.concat(parts).toString()), {
    data: {
      x: { a: 'schema a', l: ['a', 'schema a'] },
      y: 'a',
      '"a': '{"a":',
      a: { b: 'z' },
      b: null,
      c: 'schema a',
    },
  })
})

const cells = (facts: readonly (readonly [kind: string, value: unknown])[]) =>
  facts.map(([kind, value]) => [Buffer.from(kind), Buffer.from(JSON.stringify(value))])
const catalogOf = (...facts: (readonly [string, unknown])[]): Catalog =>
  atOnce(catalogFrom(atOnce(readFacts(cells([['version', 1], ...facts]))), ['public']))
const functionFact = (oid: number, parameters: number): [string, unknown] => [
  'function',
  {
    ...{
      oid,
      schema: 'public',
      name: `f${oid}`,
      argNames: null,
      argModes: null,
      defaults: 0,
      isVariadic: false,
    },
    ...{
      argTypes: Array(parameters).fill('integer'),
      argOids: Array(parameters).fill(23),
      returns: 'integer',
    },
    ...{
      returnKind: 'b',
      returnRelation: 0,
      mediaType: null,
      isBinary: false,
      isSet: false,
      isOneRow: false,
    },
    volatility: 's',
  },
]

test('graphql introspection: an answer of several megabytes is kept', () => {
  const oids = Array.from({ length: 20_000 }, (_, n) => n + 100)
  const roles = [true, true, true]
  const reflection = atOnce(
    reflectionFrom(
      cells([
        ['version', 1],
        ['schema', ['public', null, roles]],
        ['type', [23, 'int4', 'b', 0, 0, 'N']],
        ...oids.map(oid => ['function', [oid, null, roles, 23]] as const),
      ]),
    ),
  )
  const limits = {
    maxDocumentBytes: 50_000,
    maxDepth: 30,
    maxFields: 1000,
    maxAliases: 100,
    maxComplexity: 1,
  }
  const engine = createEngine(catalogOf(...oids.map(oid => functionFact(oid, 0))), reflection, {
    ...{ schema: 'public', role: 'anon', limits, mostRows: 10 },
  })
  const plan = () =>
    atOnce(
      engine.plan({
        ...{
          text: standard,
          operationName: undefined,
          variables: {},
          bytes: standard.length,
          isReadOnly: true,
        },
      }),
    )
  const { shown: first } = plan()
  assert.ok(first!['__schema']!.length > 2_500_000, String(first!['__schema']!.length))
  assert.equal(plan().shown, first)
})

test('graphql: the size of a schema counts columns, functions, parameters, labels and comments', () => {
  const table = (columns: number) =>
    catalogOf(
      ['relation', { oid: 1, schema: 'public', name: 't', kind: 'r', type: 2 }],
      [
        'columns',
        Array.from({ length: columns }, (_, n) => [1, n + 1, `c${n}`, 'text', 25, false, null, 25]),
      ],
    )
  assert.equal(sizeOf(table(1000), 'public') - sizeOf(table(1), 'public'), 999)
  assert.equal(sizeOf(catalogOf(functionFact(1, 10), functionFact(2, 0)), 'public'), 12)
  const reflection = atOnce(
    reflectionFrom(
      cells([
        ['relation', [1, null, [], [], [], []]],
        ['columns', [1, [['c0', 25, false, false, 'x'.repeat(20_000)]]]],
        ['enum', [9, 'label', null, Array(5000).fill('l')]],
      ]),
    ),
  )
  assert.equal(reflectedSize(table(1), reflection, 'public'), 5100)
})

test('graphql: a project whose schema could not be built is read again', async () => {
  let version = 1
  const asCaller = async () => ({
    rows: cells([
      ['version', version],
      ['schema', ['public', null, [true, true, true]]],
      ['function', [7, null, null, 23]],
    ]),
  })
  const limits = { maxDocumentBytes: 1, maxDepth: 1, maxFields: 1, maxAliases: 1, maxComplexity: 1 }
  const engines = openEngines({ asCaller } as unknown as Databases, limits, 10)
  const tenant = { id: 'a', exposedSchemas: ['public'] } as unknown as Tenant
  const catalog = catalogOf(functionFact(7, 0))
  const open = async () => engines.of(tenant, catalog, 'anon', 'public')
  await assert.rejects(open, TypeError)
  version = 2
  await assert.rejects(open, DocumentProblem)
})

test('graphql: the last 100 engines are kept, by catalogue, role and schema', async () => {
  let reads = 0
  const asCaller = async () => {
    reads++
    return {
      rows: cells([
        ['version', 1],
        ['schema', ['public', null, [true, true, true]]],
      ]),
    }
  }
  const limits = { maxDocumentBytes: 1, maxDepth: 1, maxFields: 1, maxAliases: 1, maxComplexity: 1 }
  const engines = openEngines({ asCaller } as unknown as Databases, limits, 10)
  const tenant = { id: 'a', exposedSchemas: ['public'] } as unknown as Tenant
  const catalogs = Array.from({ length: 101 }, () => catalogOf())
  const open = (catalog: Catalog) => engines.of(tenant, catalog, 'anon', 'public')
  const [first, ...others] = await Promise.all(catalogs.slice(0, 100).map(open))
  assert.equal(await open(catalogs[0]!), first)
  assert.equal(reads, 100)
  assert.equal(new Set([first, ...others]).size, 100)
  // The first has just been used, so the second is dropped.
  await open(catalogs[100]!)
  assert.equal(await open(catalogs[0]!), first)
  assert.notEqual(await open(catalogs[1]!), others[0])
  await engines.close()
})

const code = new URL('./graphql-thread-faults.ts', import.meta.url)
const threadsOf = (maxPrintMs = 60_000) =>
  createThreads({ count: 1, code, maxMs: { open: 60_000, plan: 60_000, print: maxPrintMs } })
const message = (kind: 'open' | 'plan' | 'print', engine: string) => ({ kind, engine }) as ToThread

test('graphql threads: a message without end is refused, and the others are answered by a new thread', async () => {
  const threads = threadsOf(300)
  await threads.ask('a', message('open', 'hangs'))
  await threads.ask('b', message('open', 'b'))
  const [hangs, unknown, opened] = await Promise.allSettled([
    threads.ask('a', message('print', 'hangs')),
    threads.ask('b', message('plan', 'b')),
    threads.ask('c', message('open', 'c')),
  ])
  assert.ok(hangs.status === 'rejected' && hangs.reason instanceof Refusal)
  assert.match(hangs.reason.message, /longer than 0.3 seconds to print/)
  assert.ok(unknown.status === 'rejected' && unknown.reason instanceof UnknownEngine)
  assert.ok(opened.status === 'fulfilled' && opened.value === 'c: open of c')
  await threads.close()
})

test('graphql threads: a message that ends a thread of its own is refused, the others are not', async () => {
  const threads = threadsOf()
  await threads.ask('a', message('open', 'ends'))
  const [ends, opened] = await Promise.allSettled([
    threads.ask('a', message('plan', 'ends')),
    threads.ask('b', message('open', 'b')),
  ])
  assert.ok(ends.status === 'rejected' && ends.reason instanceof Refusal)
  assert.equal(ends.reason.code, 'schema_too_large')
  assert.ok(opened.status === 'fulfilled' && opened.value === 'b: open of b')
  await threads.close()
})

test('graphql threads: a message that ends a shared thread is asked again in a new one', async () => {
  const threads = threadsOf()
  await threads.ask('a', message('open', 'a'))
  const answer = await threads.ask('b', message('open', 'ends beside others'))
  assert.equal(answer, 'ends beside others: open of ends beside others')
  await threads.close()
})

test('graphql threads: messages of projects take turns, one at a time', async () => {
  const threads = threadsOf()
  const order: string[] = []
  const open = (project: string, engine: string) =>
    threads.ask(project, message('open', engine)).then(() => order.push(engine))
  await Promise.all([open('a', 'a1'), open('a', 'a2'), open('a', 'a3'), open('b', 'b1')])
  assert.ok(order.indexOf('b1') < order.indexOf('a3'), order.join())
  await threads.close()
  await assert.rejects(threads.ask('a', message('open', 'a4')), /closed/)
})

test('graphql threads: a message that waits is dropped when its client goes', async () => {
  const threads = threadsOf()
  const client = new AbortController()
  const first = threads.ask('a', message('open', 'a1'))
  const second = threads.ask('a', message('open', 'a2'), client.signal)
  client.abort()
  await assert.rejects(second, { code: 'client_closed_request' })
  await first
  assert.equal(await threads.ask('a', message('open', 'a3')), 'a3: open of a1,a3')
  await threads.close()
})
