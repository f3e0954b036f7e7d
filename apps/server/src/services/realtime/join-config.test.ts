import assert from 'node:assert/strict'
import { test } from 'node:test'
import { joinConfigFrom } from './join-config.ts'

const config = (config: unknown, subTopic = 'room') => joinConfigFrom({ config }, subTopic, ['public'])

test('booleans may be texts', () => {
  const { isPrivate, acksBroadcasts, hearsItself, presence } = config({
    private: 'true',
    broadcast: { ack: 'true', self: 'false' },
    presence: { key: 'k', enabled: 'false' },
  })
  assert.deepEqual(
    [isPrivate, acksBroadcasts, hearsItself, presence],
    [true, true, false, { key: 'k', isEnabled: false }],
  )
})

test('presence is enabled where it is asked for, or where the switch is not known', () => {
  assert.equal(config({ presence: { enabled: true } }).presence.isEnabled, true)
  assert.equal(config({ presence: { key: '' } }).presence.isEnabled, true)
  assert.equal(config({ presence: { enabled: false } }).presence.isEnabled, false)
  assert.equal(config({}).presence.isEnabled, false)
})

test('each wish is echoed with an id; equal ones share it', () => {
  const wish = { event: 'INSERT', schema: 'public', table: 't', filter: 'id=eq.1' }
  const { answer, bindings } = config({
    postgres_changes: [wish, { event: '*', schema: 'public', filter: null }, wish],
  })
  assert.deepEqual(JSON.parse(answer), [
    { id: 1, ...wish },
    { id: 2, event: '*', schema: 'public', filter: null },
    { id: 1, ...wish },
  ])
  assert.deepEqual(
    bindings.map(({ id, table, filter }) => [id, table, filter]),
    [
      [1, 't', 'id=eq.1'],
      [2, undefined, undefined],
    ],
  )
})

test('a wish nobody can follow is echoed and complained of, and keeps its number from others', () => {
  const { answer, bindings, complaint } = config({
    postgres_changes: [{ event: 'TRUNCATE', schema: 'public' }, { event: '*', schema: 'public' }, 7],
  })
  assert.deepEqual(JSON.parse(answer), [
    { id: 1, event: 'TRUNCATE', schema: 'public' },
    { id: 2, event: '*', schema: 'public' },
    { id: 3 },
  ])
  assert.deepEqual(
    bindings.map(({ id }) => id),
    [2],
  )
  assert.match(complaint ?? '', /event/)
})

const topics: [string, unknown, string, unknown][] = [
  ['an old client', {}, 'public:todos', ['public', 'todos', undefined]],
  ['an old client with a filter', {}, 'public:todos:at=eq.1:2', ['public', 'todos', 'at=eq.1:2']],
  ['an old client on a schema', {}, 'public', ['public', undefined, undefined]],
  ['an old client on everything', {}, '*', ['*', undefined, undefined]],
  ['an old client in a room', {}, 'room', undefined],
  ['a new client that asks for nothing', { config: {} }, 'public:todos', ['public', 'todos', undefined]],
  ['a new client on a schema', { config: {} }, 'public', undefined],
  ['a new client with wishes', { config: { broadcast: { self: true } } }, 'public:todos', undefined],
  ['a schema that is not exposed', { config: {} }, 'auth:users', undefined],
]
for (const [who, payload, subTopic, expected] of topics)
  test(`${who}, ${subTopic}: ${expected === undefined ? 'no table' : 'a table'}`, () => {
    const { bindings, answer } = joinConfigFrom(payload, subTopic, ['public'])
    const [binding] = bindings
    assert.deepEqual(binding && [binding.schema, binding.table, binding.filter], expected)
    assert.equal(answer, '[]')
  })

for (const payload of [
  null,
  1,
  'x',
  [],
  { config: null },
  { config: { postgres_changes: {}, broadcast: 1, presence: [] } },
])
  test(`${JSON.stringify(payload)} asks for nothing`, () => {
    const { bindings, isPrivate, token } = joinConfigFrom(payload, 'room', ['public'])
    assert.deepEqual([bindings, isPrivate, token], [[], false, undefined])
  })

test('keys of any name do no harm', () => {
  const parsed = JSON.parse(
    '{"config":{"__proto__":{"private":true},"postgres_changes":[{"__proto__":{"event":"*"},"constructor":1}]}}',
  )
  const { isPrivate, answer, bindings } = joinConfigFrom(parsed, 'room', ['public'])
  assert.equal(isPrivate, false)
  assert.equal(answer, '[{"id":1}]')
  assert.deepEqual(bindings, [])
  assert.equal(({} as { event?: string }).event, undefined)
})

const odd: [string, object][] = [
  ['a NUL in a name', { event: '*', schema: 'public', table: 'a\0b' }],
  ['half a character in a name', { event: '*', schema: 'public', table: '\ud800' }],
  ['a NUL in a filter', { event: '*', schema: 'public', table: 't', filter: 'a=eq.\0' }],
  ['a name that is too long', { event: '*', schema: 'public', table: 'é'.repeat(32) }],
  [
    'a filter that is too long',
    { event: '*', schema: 'public', table: 't', filter: `a=eq.${'x'.repeat(10_000)}` },
  ],
  ['a select that is no list of names', { event: '*', schema: 'public', table: 't', select: ['a', ''] }],
  ['a table that is an object', { event: '*', schema: 'public', table: { toString: 1 } }],
]
for (const [what, wish] of odd)
  test(`${what} is complained of, and nobody is asked about it`, () => {
    const { bindings, complaint, refusal } = config({ postgres_changes: [wish] })
    assert.deepEqual([bindings, refusal], [[], undefined])
    assert.notEqual(complaint, undefined)
  })

test('wishes and keys that would take up too much room are refused', () => {
  const filter = `a=eq.${'x'.repeat(9_000)}`
  const wishes = Array.from({ length: 12 }, (_, at) => ({
    event: '*',
    schema: 'public',
    table: `t${at}`,
    filter,
  }))
  assert.match(config({ postgres_changes: wishes }).refusal ?? '', /^TooManyBindings: /)
  assert.equal(config({ postgres_changes: wishes.slice(0, 10) }).refusal, undefined)
  assert.match(config({ presence: { key: 'k'.repeat(256) } }).refusal ?? '', /^PresenceKeyTooLong: /)
})

test('a wish that nests without end is echoed without it', () => {
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level++) deep = { deep }
  const { answer, bindings } = config({ postgres_changes: [{ event: deep, schema: 'public', table: deep }] })
  assert.deepEqual([answer, bindings], ['[{"id":1,"event":false,"schema":"public","table":false}]', []])
})
