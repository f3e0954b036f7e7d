// GraphQL contract §5: the scalar of every column type and its JSON form.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fieldTypes, type GraphqlApi, graphqlProject } from '../graphql.ts'
import { samples } from '../graphql-samples.ts'
import { type Target, target } from '../target.ts'

let it: Target
let api: GraphqlApi
before(async () => {
  it = await target()
  api = await graphqlProject(it, samples)
})
after(() => it.stop())

test('GraphQL contract §5: columns have the scalar of their type', async () => {
  const types = await fieldTypes(api, 'samples')
  const expected: Record<string, string> = {
    id: 'Int!',
    small: 'Int',
    big: 'BigInt',
    exact: 'BigFloat',
    single: 'Float',
    double: 'Float',
    words: 'String',
    short: 'String',
    fixed: 'String',
    tag: 'String',
    flag: 'Boolean',
    key: 'UUID',
    day: 'Date',
    clock: 'Time',
    zoned: 'Time',
    moment: 'Datetime',
    instant: 'Datetime',
    mood: 'mood',
    doc: 'JSON',
    plain: 'JSON',
    address: 'Opaque',
    search: 'Opaque',
    numbers: '[Int]',
    labels: '[String]',
    moods: '[mood]',
    bigs: '[BigInt]',
  }
  for (const [column, type] of Object.entries(expected)) assert.equal(types[column], type, column)
})

test('GraphQL contract §5: the JSON form of every scalar', async () => {
  const { samplesByPk } = await api.data(`{ samplesByPk(id: 1) {
    id small big exact single double words short fixed tag flag key day clock zoned moment instant mood doc plain numbers labels moods bigs days flags } }`)
  const { doc, plain, instant, fixed, clock, zoned, ...rest } = samplesByPk
  assert.deepEqual(rest, {
    id: 1,
    small: 1,
    big: '9007199254740993',
    exact: '1.5000000000',
    single: 0.5,
    double: 0.25,
    words: 'Alpha',
    short: 'one',
    tag: 'x',
    flag: true,
    key: '00000000-0000-4000-8000-000000000001',
    day: '2024-01-01',
    moment: '2024-01-01T10:00:00',
    mood: 'sad',
    numbers: [1, 2],
    labels: ['red', 'blue'],
    moods: ['sad', 'ok'],
    bigs: ['9007199254740993'],
    days: ['2024-01-01'],
    flags: [true],
  })
  assert.equal(typeof doc, 'string')
  assert.deepEqual(JSON.parse(doc), { a: 1 })
  assert.deepEqual(JSON.parse(plain), [1])
  assert.match(instant, /^2024-01-01T10:00:00(\+00:00|Z)$/)
  assert.match(fixed, /^ab *$/)
  assert.match(clock, /^10:00:00/)
  assert.match(zoned, /^10:00:00\+02/)
  const precise = await api.data('{ samplesByPk(id: 2) { exact } }')
  assert.equal(precise.samplesByPk.exact, '12345678901234567890.1234567890')
})

test('GraphQL contract §5: an opaque value has the text that REST shows', async () => {
  const [{ address }] = await api.rows.read('samples?id=eq.1&select=address')
  assert.deepEqual(await api.data('{ samplesByPk(id: 1) { address } }'), { samplesByPk: { address } })
})
