// The cases of attacks.ts for GraphQL: documents, variables and schemas just below each limit, and above it.
import { createHash } from 'node:crypto'
import { getIntrospectionQuery } from 'graphql'
import type { Attacked, Case } from './attack-cases.ts'
import { type GraphqlSchema, graphqlProjects } from './attack-graphql-projects.ts'
import { send } from './attack-send.ts'

interface Wanted {
  query?: string
  variables?: object
  operationName?: string
  extensions?: object
}

/** The limits of docs/limits.md. */
const max = { bytes: 50_000, tokens: 5000, depth: 30, fields: 1000, aliases: 100, conditions: 1000 }

const times = (count: number, piece: (n: number) => string): string =>
  Array.from({ length: count }, (_, n) => piece(n)).join(' ')
const fill = (piece: string, room = max.bytes - 200): string => piece.repeat(Math.floor(room / piece.length))
const bytesOf = (wanted: Wanted | Wanted[]): Buffer => Buffer.from(JSON.stringify(wanted))
const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64')
const persisted = (sha256Hash: string) => ({ persistedQuery: { version: 1, sha256Hash } })
const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')

const one = '{ itemsCollection(first: 1) { edges { node { id } } } }'

/** Fields inside fields, with one row at each level. */
function nested(depth: number): string {
  const open = [
    'itemsCollection(first: 1) {',
    'edges {',
    'node {',
    ...Array.from({ length: Math.floor((depth - 4) / 4) }, () => [
      'partsCollection(first: 1) {',
      'edges {',
      'node {',
      'items {',
    ]).flat(),
  ]
  return `{ ${open.join(' ')} id ${'}'.repeat(open.length)} }`
}

/** The last fragment is used two to the power of `levels` times. */
const doubling = (levels: number): string =>
  `{ ...f0 } ${times(levels, n => `fragment f${n} on Query { ...f${n + 1} ...f${n + 1} }`)}
   fragment f${levels} on Query { __typename }`

/** An object in an object, each with `count` members. */
const membersOf = (count: number, levels: number): string =>
  `${times(count - 1, n => `c${n}`)} ${levels > 1 ? `parent { ${membersOf(count, levels - 1)} }` : 'id'}`

const aliases = (count: number, field: string): string => `{ ${times(count, n => `a${n}: ${field}`)} }`

const filtered = 'query($f: itemsFilter) { itemsCollection(filter: $f) { totalCount } }'
const conditions = (count: number) => ({ or: Array.from({ length: count - 1 }, () => ({ id: { eq: 1 } })) })
const inside = (depth: number, wrap: (inner: object) => object, last: object): object =>
  depth === 0 ? last : wrap(inside(depth - 1, wrap, last))

const ordered = `query($o: [itemsOrderBy!], $c: Cursor) {
  itemsCollection(orderBy: $o, after: $c) { edges { cursor } pageInfo { hasPreviousPage } } }`
const orderOf = (terms: number) => ({
  o: Array.from({ length: terms }, () => ({ name: 'AscNullsLast' })),
  c: base64(Array.from({ length: terms + 1 }, () => 1)),
})
/** A cursor and a node id as long as they may be. The cursor has one value, as many as the order has terms. */
const longCursor = base64([Array.from({ length: 37_000 }, () => 1)])
const longId = base64(['public', 'items', ...Array.from({ length: 37_000 }, () => 1)])

/** Everything about every type, as often as aliases allow. */
const everything = `types { fields { args { type { inputFields { name type { name } } } } } }`
const allTypes = '__schema { types { name fields { name type { name ofType { name } } } } }'

const documents: Record<string, () => Wanted> = {
  'as many levels as allowed': () => ({ query: nested(max.depth) }),
  'fifty levels': () => ({ query: nested(50) }),
  'brackets of 50,000 bytes': () => ({ query: fill('{a') }),
  'lists in lists': () => ({
    query: `{ itemsCollection(first: ${'['.repeat(190)}1${']'.repeat(190)}) { totalCount } }`,
  }),
  'fragments that double, just allowed': () => ({ query: doubling(9) }),
  'fragments that double': () => ({ query: doubling(300) }),
  'fragments in a cycle': () => ({
    query: `{ ...f0 } ${times(600, n => `fragment f${n} on Query { ...f${(n + 1) % 600} }`)}`,
  }),
  'a chain of fragments, used often': () => ({
    query: `{ ${times(900, () => '...f0')} __schema { queryType { name } } } ${times(300, n => `fragment f${n} on Query { ${n < 299 ? `...f${n + 1}` : '__typename'} }`)}`,
  }),
  'one fragment in many operations': () => ({
    query: `${times(380, n => `query q${n} { ...f }`)} fragment f on Query { ${times(290, () => 'node(nodeId:"a"){nodeId}')} }`,
    operationName: 'q0',
  }),
  'operations times fragments': () => ({
    query: `${times(350, n => `query q${n} { ...f0 }`)} ${times(350, n => `fragment f${n} on Query { ${n < 349 ? `...f${n + 1}` : '__typename'} }`)}`,
    operationName: 'q0',
  }),
  'many operations': () => ({ query: times(900, n => `query q${n} { __typename }`), operationName: 'q0' }),
  'as many aliases as allowed': () => ({ query: aliases(max.aliases, 'itemsCollection { totalCount }') }),
  'a thousand aliases': () => ({ query: aliases(1000, '__typename') }),
  'as many fields as allowed': () => ({ query: `{ ${times(max.fields, () => '__typename')} }` }),
  'many unknown fields': () => ({ query: `{ ${times(max.fields, n => `item${n}`)} }` }),
  'many directives': () => ({ query: `{ __typename ${fill('@a', max.tokens - 100)} }` }),
  'many conditional fields': () => ({
    query: `query($v: Boolean!) { ${times(600, () => '__typename @include(if: $v)')} }`,
    variables: { v: true },
  }),
  'many arguments': () => ({ query: `{ itemsCollection(${times(1600, n => `a${n}: 1`)}) { totalCount } }` }),
  'many variables': () => ({ query: `query(${times(1200, n => `$v${n}: Int`)}) { __typename }` }),
  'many used variables': () => ({
    query: `query(${times(500, n => `$v${n}: Int`)}) { itemsCollection(filter: { id: { in: [${times(500, n => `$v${n}`)}] } }) { totalCount } }`,
    variables: Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`v${n}`, n])),
  }),
  'variables that are not declared': () => ({
    query: '{ __typename }',
    variables: Object.fromEntries(Array.from({ length: 9000 }, (_, n) => [`v${n}`, n])),
  }),
  'a long string': () => ({ query: `{ node(nodeId: "${fill('x')}") { nodeId } }` }),
  'a string of escapes': () => ({ query: `{ node(nodeId: "${fill('\\u{1f600}')}") { nodeId } }` }),
  'a block string of lines': () => ({ query: `{ node(nodeId: """${fill(' \n')}""") { nodeId } }` }),
  comments: () => ({ query: `${fill('#\n')}{ __typename }` }),
  commas: () => ({ query: `${fill(',')}{ __typename }` }),
  'a number of many digits': () => ({
    query: `{ itemsCollection(first: ${fill('9')}) { totalCount } }`,
  }),
  'a long name': () => ({ query: `{ ${fill('itemsCollection')} }` }),
  'many long names': () => ({ query: `{ ${times(500, n => `${'itemsCollection'.repeat(6)}${n}`)} }` }),
  'as many conditions as allowed': () => ({ query: filtered, variables: { f: conditions(max.conditions) } }),
  'too many conditions': () => ({ query: filtered, variables: { f: conditions(4000) } }),
  'conditions in the document': () => ({
    query: `{ itemsCollection(filter: { or: [${times(600, () => '{id:{eq:1}}')}] }) { totalCount } }`,
  }),
  'a deep condition': () => ({
    query: filtered,
    variables: { f: inside(90, not => ({ not }), { id: { eq: 1 } }) },
  }),
  'a condition through many relations': () => ({
    query: filtered,
    variables: {
      f: inside(30, items => ({ partsCollection: { some: { items } } }), { id: { eq: 1 } }),
    },
  }),
  'a long list of values': () => ({
    query: filtered,
    variables: { f: { id: { in: Array.from({ length: 9900 }, (_, n) => n) } } },
  }),
  'a long list of wrong values': () => ({
    query: filtered,
    variables: { f: { id: { in: Array.from({ length: 9900 }, () => 'x') } } },
  }),
  'a long node id': () => ({
    query: 'query($i: ID!) { node(nodeId: $i) { nodeId } }',
    variables: { i: longId },
  }),
  'a long node id in 400 conditions': () => ({
    query: `query($i: ID) { itemsCollection(filter: { or: [${times(400, () => '{nodeId:{eq:$i}}')}] }) { totalCount } }`,
    variables: { i: longId },
  }),
  'a hundred terms of an order': () => ({ query: ordered, variables: orderOf(100) }),
  'a thousand terms of an order': () => ({ query: ordered, variables: orderOf(1000) }),
  'as many terms of an order as a body has': () => ({ query: ordered, variables: orderOf(4000) }),
  'a long cursor in many pages': () => ({
    query: `query($c: Cursor) { ${times(max.aliases, n => `a${n}: itemsCollection(after: $c) { totalCount }`)} }`,
    variables: { c: longCursor },
  }),
  'the usual introspection': () => ({ query: getIntrospectionQuery() }),
  'introspection of everything': () => ({ query: `{ __schema { ${everything} } }` }),
  'introspection with many aliases': () => ({ query: aliases(max.aliases, allTypes) }),
  'introspection of everything, with aliases': () => ({
    query: `{ __schema { ${times(90, n => `a${n}: ${everything}`)} } }`,
  }),
  'introspection too deep': () => ({
    query: `{ __schema { types { ${'fields { type { '.repeat(12)} name ${'} }'.repeat(12)} } } }`,
  }),
  'many types by name': () => ({ query: aliases(max.aliases, '__type(name: "items") { fields { name } }') }),
  'a mutation of nothing': () => ({ query: 'mutation { __typename @skip(if: true) }' }),
  'rows just allowed': () => ({
    query:
      '{ itemsCollection { edges { node { partsCollection { edges { node { items { partsCollection { edges { node { id name } } } } } } } } } } }',
  }),
  'rows in too many levels': () => ({ query: nested(28).replaceAll('(first: 1)', '') }),
}

/** In a schema with one table of 1,500 columns that refers to itself. */
const wideDocuments: Record<string, () => Wanted> = {
  'objects of 51 members, twelve levels': () => ({ query: `{ wideByPk(id: 1) { ${membersOf(51, 12)} } }` }),
  'objects of 51 members, as many as allowed': () => ({
    query: `{ wideByPk(id: 1) { ${membersOf(51, 18)} } }`,
  }),
  'rows of many columns': () => ({
    query: 'mutation($o: [wideInsertInput!]!) { insertIntowideCollection(objects: $o) { affectedCount } }',
    variables: {
      o: [
        Object.fromEntries(Array.from({ length: 1500 }, (_, n) => [`c${n}`, 'x'])),
        ...Array.from({ length: 4000 }, (_, id) => ({ id })),
      ],
    },
  }),
}

const largeSchemas = [
  'full of columns',
  'full of functions',
  'full of labels',
  'full of comments',
  'of 20 tables',
  'of 2,000 tables',
] as const satisfies GraphqlSchema[]

export function graphqlCases({ url, adminToken }: Attacked): Case[] {
  const projectOf = graphqlProjects(url, adminToken)

  /** Requests one after the other. Returns the worst status. */
  async function sendAll(schema: GraphqlSchema, bodies: Iterable<Wanted | Wanted[]>): Promise<number> {
    const project = await projectOf(schema)
    let status = 0
    for (const each of bodies) status = Math.max(status, await send(url, project.request(bytesOf(each))))
    return status
  }
  const prepare = (schema: GraphqlSchema) => async () => {
    await sendAll(schema, [{ query: '{ __typename }' }])
  }
  const control = (schema: GraphqlSchema) => () =>
    sendAll(schema, [{ query: `{ __typename } # ${'x'.repeat(max.bytes / 2)}` }])

  const document = (
    name: string,
    wanted: () => Wanted | Wanted[],
    schema: GraphqlSchema = 'small',
  ): Case => ({
    name: `graphql: ${name}${schema === 'small' ? '' : `, in a schema ${schema}`}`,
    prepare: prepare(schema),
    control: control(schema),
    attack: () => sendAll(schema, [wanted()]),
  })
  const flood = (name: string, count: number, wanted: (n: number) => Wanted): Case => ({
    name: `graphql: ${name}`,
    prepare: prepare('small'),
    control: () =>
      sendAll(
        'small',
        Array.from({ length: count }, () => ({ query: one })),
      ),
    attack: () =>
      sendAll(
        'small',
        Array.from({ length: count }, (_, n) => wanted(n)),
      ),
  })
  const get = (name: string, search: string): Case => ({
    name: `graphql: ${name}`,
    prepare: prepare('small'),
    control: async () => send(url, (await projectOf('small')).get(`query=${encodeURIComponent(one)}`)),
    attack: async () => send(url, (await projectOf('small')).get(search)),
  })
  const changed = (schema: GraphqlSchema): Case => ({
    name: `graphql: the first request after a change, in a schema ${schema}`,
    async prepare() {
      const project = await projectOf(schema)
      await project.owner('create table added (id int)', 'drop table added')
    },
    control: control('small'),
    attack: () => sendAll(schema, [{ query: '{ __typename }' }]),
  })

  return [
    ...Object.entries(documents).map(([name, wanted]) => document(name, wanted)),
    ...Object.entries(wideDocuments).map(([name, wanted]) => document(name, wanted, 'of a wide table')),
    document('a batch', () => Array.from({ length: 2000 }, () => ({ query: '{ __typename }' }))),
    get('a query by GET as long as allowed', `query={__typename}${'%23'.repeat(10_000)}`),
    get(
      'deep variables by GET',
      `query=${encodeURIComponent(filtered)}&variables={"f":${'{"not":'.repeat(2500)}null${'}'.repeat(2500)}}`,
    ),
    flood('documents with persisted hashes', 250, n => {
      const query = `{ __typename } # ${n} ${'é'.repeat(20_000)}`
      return { query, extensions: persisted(hashOf(query)) }
    }),
    flood('unknown hashes', 250, n => ({ extensions: persisted(hashOf(String(n))) })),
    flood('different documents', 250, n => ({
      query: aliases(90, `itemsCollection(first: ${n}) { totalCount }`),
    })),
    flood('different shapes of variables', 250, n => ({
      query: `${filtered} # ${n % 5}`,
      variables: { f: conditions(max.conditions - n) },
    })),
    ...largeSchemas.flatMap(schema => [
      changed(schema),
      document('the usual introspection', documents['the usual introspection']!, schema),
      document('introspection of everything', documents['introspection of everything']!, schema),
      document('unknown fields', () => ({ query: `{ ${times(max.fields, n => `t${n}x`)} }` }), schema),
    ]),
    document(
      'introspection with many aliases',
      documents['introspection with many aliases']!,
      'of 20 tables',
    ),
    document('introspection with aliases', () => ({ query: aliases(3, allTypes) }), 'of 2,000 tables'),
    document(
      'a wide document',
      () => ({ query: `{ ${times(300, n => `t${n}Collection { totalCount }`)} }` }),
      'of 2,000 tables',
    ),
  ]
}
