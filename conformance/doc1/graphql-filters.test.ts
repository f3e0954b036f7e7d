// GraphQL contract §5: filters of every scalar type.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fieldTypes, type GraphqlApi, graphqlProject, typeOf } from '../graphql.ts'
import { samples } from '../graphql-samples.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(
    it,
    `
    ${samples};
    create table public.words (id int primary key, "and" text, "or" text, "not" text);
    insert into public.words values (1, 'a', 'b', 'c');
    `,
  )
})
after(() => it.stop())

const ids = async (filter: string) =>
  (await api.nodes(`{ samplesCollection(filter: ${filter}) { edges { node { id } } } }`)).map(({ id }) => id)
async function selects(cases: Record<string, number[]>): Promise<void> {
  for (const [filter, expected] of Object.entries(cases))
    assert.deepEqual(await ids(filter), expected, filter)
}
async function fails(...filters: string[]): Promise<void> {
  for (const filter of filters)
    await api.error(`{ samplesCollection(filter: ${filter}) { edges { node { id } } } }`)
}
/** The six comparisons of an ordered type whose values in rows 1 to 3 grow. */
async function compares(column: string, values: [string, string, string]): Promise<void> {
  const [one, two, three] = values
  await selects({
    [`{ ${column}: { eq: ${two} } }`]: [2],
    [`{ ${column}: { neq: ${two} } }`]: [1, 3],
    [`{ ${column}: { lt: ${two} } }`]: [1],
    [`{ ${column}: { lte: ${two} } }`]: [1, 2],
    [`{ ${column}: { gt: ${two} } }`]: [3],
    [`{ ${column}: { gte: ${two} } }`]: [2, 3],
    [`{ ${column}: { in: [${one}, ${three}] } }`]: [1, 3],
    [`{ ${column}: { in: ${one} } }`]: [1],
    [`{ ${column}: { in: [] } }`]: [],
    [`{ ${column}: { is: NULL } }`]: [4],
    [`{ ${column}: { is: NOT_NULL } }`]: [1, 2, 3],
    [`{ ${column}: { gt: ${one}, lt: ${three} } }`]: [2],
  })
}

test('GraphQL contract §5: the operators of every type', async () => {
  const ordered = ['eq', 'neq', 'lt', 'lte', 'gt', 'gte', 'in', 'is']
  const lists = ['contains', 'containedBy', 'overlaps', 'eq', 'is']
  const operators: Record<string, string[]> = {
    ...Object.fromEntries(
      ['Int', 'BigInt', 'BigFloat', 'Float', 'Date', 'Time', 'Datetime'].map(name => [
        `${name}Filter`,
        ordered,
      ]),
    ),
    StringFilter: [...ordered, 'startsWith', 'like', 'ilike', 'regex', 'iregex'],
    BooleanFilter: ['eq', 'is'],
    UUIDFilter: ['eq', 'neq', 'in', 'is'],
    moodFilter: ['eq', 'neq', 'in', 'is'],
    IDFilter: ['eq'],
    OpaqueFilter: ['eq', 'is'],
    IntListFilter: lists,
    StringListFilter: lists,
  }
  for (const [name, expected] of Object.entries(operators))
    assert.deepEqual(Object.keys(await fieldTypes(api, name)).sort(), [...expected].sort(), name)
  assert.deepEqual((await typeOf(api, 'FilterIs'))!.enumValues.sort(), ['NOT_NULL', 'NULL'])
  const fields = await fieldTypes(api, 'samplesFilter')
  assert.ok(!('doc' in fields) && !('plain' in fields), 'JSON is not filterable')
  const expected = {
    id: 'IntFilter',
    big: 'BigIntFilter',
    exact: 'BigFloatFilter',
    words: 'StringFilter',
    nodeId: 'IDFilter',
    mood: 'moodFilter',
    address: 'OpaqueFilter',
    numbers: 'IntListFilter',
  }
  for (const [column, type] of Object.entries(expected)) assert.equal(fields[column], type, column)
  assert.equal(fields['and'], '[samplesFilter!]')
  assert.equal(fields['or'], '[samplesFilter!]')
  assert.equal(fields['not'], 'samplesFilter')
})

test('GraphQL contract §5: Int, Float, BigInt and BigFloat', async () => {
  for (const column of ['id', 'small']) {
    await selects({ [`{ ${column}: { eq: 2 } }`]: [2], [`{ ${column}: { in: [1, 3] } }`]: [1, 3] })
    await fails(`{ ${column}: { eq: "2" } }`, `{ ${column}: { eq: 2.5 } }`, `{ ${column}: { like: "a" } }`)
  }
  await compares('small', ['1', '2', '3'])
  await compares('double', ['0.25', '2.5', '3'])
  await compares('single', ['0.5', '1.5', '3'])
  await selects({
    '{ big: { eq: "9007199254740993" } }': [1],
    '{ big: { eq: 9007199254740993 } }': [1],
    '{ big: { eq: 2 } }': [2],
    '{ big: { lte: "3" } }': [2, 3],
    '{ big: { in: ["2", 3] } }': [2, 3],
    '{ big: { in: [] } }': [],
    '{ exact: { eq: "12345678901234567890.1234567890" } }': [2],
    '{ exact: { eq: 1.5 } }': [1],
    '{ exact: { gte: 3 } }': [2, 3],
    '{ exact: { eq: 12345678901234567890.1234567890 } }': [2],
    '{ exact: { neq: "3" } }': [1, 2],
    '{ exact: { is: NULL } }': [4],
  })
  await fails(
    '{ big: { eq: "text" } }',
    '{ exact: { eq: "text" } }',
    '{ big: { eq: true } }',
    '{ double: { eq: "1" } }',
  )
})

test('GraphQL contract §5: String', async () => {
  await selects({
    '{ words: { eq: "Alpha" } }': [1],
    '{ words: { neq: "Alpha" } }': [2, 3],
    '{ words: { in: ["Alpha", "beta"] } }': [1, 2],
    '{ words: { like: "Al%" } }': [1, 3],
    '{ words: { like: "al%" } }': [],
    '{ words: { ilike: "AL%" } }': [1, 3],
    '{ words: { startsWith: "Al%" } }': [3],
    '{ words: { startsWith: "Al" } }': [1, 3],
    '{ words: { regex: "^Al.ha$" } }': [1],
    '{ words: { regex: "^Alp" } }': [1],
    '{ words: { iregex: "^ALP|BETA$" } }': [1, 2],
    '{ words: { is: NULL } }': [4],
    '{ tag: { eq: "x" } }': [1],
    '{ fixed: { eq: "ab" } }': [1],
    '{ short: { gt: "three" } }': [2],
  })
  await fails('{ words: { eq: 5 } }', '{ words: { regex: "(" } }', '{ words: { in: [5] } }')
})

test('GraphQL contract §5: Boolean, UUID, Date, Time and Datetime', async () => {
  await selects({
    '{ flag: { eq: true } }': [1, 3],
    '{ flag: { eq: false } }': [2],
    '{ flag: { is: NULL } }': [4],
  })
  const key = (n: number) => `"00000000-0000-4000-8000-00000000000${n}"`
  await selects({
    [`{ key: { eq: ${key(2)} } }`]: [2],
    [`{ key: { neq: ${key(2)} } }`]: [1, 3],
    [`{ key: { in: [${key(1)}, ${key(3)}] } }`]: [1, 3],
    '{ key: { in: [] } }': [],
    '{ key: { is: NOT_NULL } }': [1, 2, 3],
  })
  await compares('day', ['"2024-01-01"', '"2024-02-01"', '"2024-03-01"'])
  await compares('clock', ['"10:00:00"', '"11:00:00"', '"12:00:00"'])
  await compares('zoned', ['"10:00:00+02"', '"11:00:00+02"', '"12:00:00+02"'])
  await compares('moment', ['"2024-01-01T10:00:00"', '"2024-02-01T10:00:00"', '"2024-03-01T10:00:00"'])
  await compares('instant', [
    '"2024-01-01T10:00:00Z"',
    '"2024-02-01T12:00:00+02:00"',
    '"2024-03-01T10:00:00Z"',
  ])
  await fails(
    '{ flag: { neq: true } }',
    '{ key: { lt: "a" } }',
    '{ key: { eq: "text" } }',
    '{ day: { eq: "text" } }',
    '{ instant: { eq: 5 } }',
  )
})

test('GraphQL contract §5: enums as literals, and as strings in variables', async () => {
  await selects({
    '{ mood: { eq: ok } }': [2],
    '{ mood: { neq: ok } }': [1, 3],
    '{ mood: { in: [sad, happy] } }': [1, 3],
    '{ mood: { in: [] } }': [],
    '{ mood: { is: NULL } }': [4],
  })
  await fails('{ mood: { eq: "ok" } }', '{ mood: { eq: wrong } }', '{ mood: { lt: ok } }')
  const document =
    'query($mood: mood!) { samplesCollection(filter: { mood: { eq: $mood } }) { edges { node { id mood } } } }'
  assert.deepEqual(await api.nodes(document, { variables: { mood: 'happy' } }), [{ id: 3, mood: 'happy' }])
  await api.error(document, { variables: { mood: 'wrong' } })
})

test('GraphQL contract §5: lists', async () => {
  await selects({
    '{ numbers: { contains: [2] } }': [1, 2],
    '{ numbers: { contains: 2 } }': [1, 2],
    '{ numbers: { contains: [1, 2] } }': [1],
    '{ numbers: { containedBy: [1, 2, 4] } }': [1, 3],
    '{ numbers: { overlaps: [1, 3] } }': [1, 2],
    '{ numbers: { eq: [2, 3] } }': [2],
    '{ numbers: { eq: [] } }': [3],
    '{ numbers: { is: NULL } }': [4],
    '{ labels: { contains: ["red"] } }': [1, 2],
    '{ labels: { eq: ["red", "blue"] } }': [1],
    '{ moods: { overlaps: [happy] } }': [2],
    '{ bigs: { contains: ["9007199254740993"] } }': [1],
    '{ days: { overlaps: ["2024-02-01"] } }': [2],
    '{ flags: { contains: [true] } }': [1],
  })
  await fails('{ numbers: { contains: ["a"] } }', '{ numbers: { lt: [1] } }')
})

test('GraphQL contract §5: opaque values have eq and is, and JSON has no filter', async () => {
  await selects({
    '{ address: { eq: "10.0.0.2" } }': [2],
    '{ address: { is: NULL } }': [4],
    '{ search: { is: NOT_NULL } }': [1, 2, 3],
  })
  await fails(
    '{ address: { lt: "10.0.0.2" } }',
    '{ address: { eq: "text" } }',
    '{ doc: { eq: "{}" } }',
    '{ plain: { is: NULL } }',
  )
})

test('GraphQL contract §5: nodeId, and, or, not and their combinations', async () => {
  const nodeId = Buffer.from('["public", "samples", 2]').toString('base64')
  await selects({
    [`{ nodeId: { eq: "${nodeId}" } }`]: [2],
    '{ and: [{ id: { gt: 1 } }, { id: { lt: 3 } }] }': [2],
    '{ or: [{ id: { eq: 1 } }, { id: { eq: 3 } }] }': [1, 3],
    '{ not: { id: { eq: 1 } } }': [2, 3, 4],
    '{ not: { small: { eq: 1 } } }': [2, 3],
    '{ not: { id: { gt: 1 }, flag: { eq: true } } }': [1, 2],
    '{ or: { id: { gt: 1 }, flag: { eq: true } } }': [3],
    '{ and: { id: { gt: 1 }, flag: { eq: true } } }': [3],
    '{ flag: { eq: true }, or: [{ id: { eq: 1 } }, { id: { eq: 2 } }] }': [1],
    '{ or: [{ id: { eq: 1 } }, { and: [{ id: { gt: 1 } }, { not: { id: { gt: 2 } } }] }] }': [1, 2],
    '{ id: { gt: 1 }, flag: { eq: true } }': [3],
  })
})

test('GraphQL contract §5: empty and null filters are ignored', async () => {
  const all = [1, 2, 3, 4]
  await selects({
    '{}': all,
    null: all,
    '{ and: [] }': all,
    '{ or: [] }': all,
    '{ not: {} }': all,
    '{ id: {} }': all,
    '{ or: [{}] }': all,
    '{ and: [{}, { id: { eq: 1 } }] }': [1],
    '{ words: null }': all,
    '{ and: null, or: null, not: null }': all,
  })
})

test('GraphQL contract §5: eq null is an error or matches no row', async () => {
  for (const column of ['small', 'words', 'mood', 'address']) {
    const reply = await api.ask(
      `{ samplesCollection(filter: { ${column}: { eq: null } }) { edges { node { id } } } }`,
    )
    assert.equal(reply.status, 200)
    if (reply.body.errors === undefined) assert.deepEqual(reply.body.data.samplesCollection.edges, [])
  }
})

test('GraphQL contract §5: a table with columns named and, or and not is still served', async () => {
  const found = await api.nodes(
    '{ wordsCollection(filter: { id: { eq: 1 } }) { edges { node { id and or not } } } }',
  )
  assert.deepEqual(found, [{ id: 1, and: 'a', or: 'b', not: 'c' }])
})
