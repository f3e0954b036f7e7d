import assert from 'node:assert/strict'
import { test } from 'node:test'
import { joinConfigFrom } from './join-config.ts'

const config = (config: unknown, subTopic = 'room') => joinConfigFrom({ config }, subTopic, ['public'])

test('join config: booleans may be strings', () => {
  const { isPrivate, acksBroadcasts, receivesOwnBroadcasts, presence } = config({
    private: 'true',
    broadcast: { ack: 'true', self: 'false' },
    presence: { key: 'k', enabled: 'false' },
  })
  assert.deepEqual(
    [isPrivate, acksBroadcasts, receivesOwnBroadcasts, presence],
    [true, true, false, { key: 'k', isEnabled: false }],
  )
})

test('join config: presence is enabled if requested, or if the client does not send `enabled`', () => {
  assert.equal(config({ presence: { enabled: true } }).presence.isEnabled, true)
  assert.equal(config({ presence: { key: '' } }).presence.isEnabled, true)
  assert.equal(config({ presence: { enabled: false } }).presence.isEnabled, false)
  assert.equal(config({}).presence.isEnabled, false)
})

test('join config: each entry is echoed with an id, and equal entries share it', () => {
  const entry = { event: 'INSERT', schema: 'public', table: 't', filter: 'id=eq.1' }
  const { echo, bindings } = config({
    postgres_changes: [entry, { event: '*', schema: 'public', filter: null }, entry],
  })
  assert.deepEqual(JSON.parse(echo), [
    { id: 1, ...entry },
    { id: 2, event: '*', schema: 'public', filter: null },
    { id: 1, ...entry },
  ])
  assert.deepEqual(
    bindings.map(({ id, table, filter }) => [id, table, filter]),
    [
      [1, 't', 'id=eq.1'],
      [2, undefined, undefined],
    ],
  )
})

test('join config: an invalid entry is echoed and reported, and keeps its id', () => {
  const { echo, bindings, bindingError } = config({
    postgres_changes: [{ event: 'TRUNCATE', schema: 'public' }, { event: '*', schema: 'public' }, 7],
  })
  assert.deepEqual(JSON.parse(echo), [
    { id: 1, event: 'TRUNCATE', schema: 'public' },
    { id: 2, event: '*', schema: 'public' },
    { id: 3 },
  ])
  assert.deepEqual(
    bindings.map(({ id }) => id),
    [2],
  )
  assert.match(bindingError ?? '', /event/)
})

const topics: [string, unknown, string, unknown][] = [
  ['a legacy client', {}, 'public:todos', ['public', 'todos', undefined]],
  ['a legacy client with a filter', {}, 'public:todos:at=eq.1:2', ['public', 'todos', 'at=eq.1:2']],
  ['a legacy client, with a schema,', {}, 'public', ['public', undefined, undefined]],
  ['a legacy client, with all schemas,', {}, '*', ['*', undefined, undefined]],
  ['a legacy client, with another topic,', {}, 'room', undefined],
  ['a client without options', { config: {} }, 'public:todos', ['public', 'todos', undefined]],
  ['a client, with a schema,', { config: {} }, 'public', undefined],
  ['a client with other options', { config: { broadcast: { self: true } } }, 'public:todos', undefined],
  ['a client, with a schema that is not exposed,', { config: {} }, 'auth:users', undefined],
]
for (const [who, payload, subTopic, expected] of topics)
  test(`join config: ${who} on ${subTopic} subscribes to ${expected === undefined ? 'no table' : 'a table'}`, () => {
    const { bindings, echo } = joinConfigFrom(payload, subTopic, ['public'])
    const [binding] = bindings
    assert.deepEqual(binding && [binding.schema, binding.table, binding.filter], expected)
    assert.equal(echo, '[]')
  })

for (const payload of [
  null,
  1,
  'x',
  [],
  { config: null },
  { config: { postgres_changes: {}, broadcast: 1, presence: [] } },
])
  test(`join config: ${JSON.stringify(payload)} requests nothing`, () => {
    const { bindings, isPrivate, token } = joinConfigFrom(payload, 'room', ['public'])
    assert.deepEqual([bindings, isPrivate, token], [[], false, undefined])
  })

test('join config: keys such as __proto__ have no effect', () => {
  const parsed = JSON.parse(
    '{"config":{"__proto__":{"private":true},"postgres_changes":[{"__proto__":{"event":"*"},"constructor":1}]}}',
  )
  const { isPrivate, echo, bindings } = joinConfigFrom(parsed, 'room', ['public'])
  assert.equal(isPrivate, false)
  assert.equal(echo, '[{"id":1}]')
  assert.deepEqual(bindings, [])
  assert.equal(({} as { event?: string }).event, undefined)
})

const invalidEntries: [string, object][] = [
  ['a NUL in a name', { event: '*', schema: 'public', table: 'a\0b' }],
  ['an unpaired surrogate in a name', { event: '*', schema: 'public', table: '\ud800' }],
  ['a NUL in a filter', { event: '*', schema: 'public', table: 't', filter: 'a=eq.\0' }],
  ['a name that is too long', { event: '*', schema: 'public', table: 'é'.repeat(32) }],
  [
    'a filter that is too long',
    { event: '*', schema: 'public', table: 't', filter: `a=eq.${'x'.repeat(10_000)}` },
  ],
  ['a select that is not a list of names', { event: '*', schema: 'public', table: 't', select: ['a', ''] }],
  ['a table that is an object', { event: '*', schema: 'public', table: { toString: 1 } }],
]
for (const [what, entry] of invalidEntries)
  test(`join config: ${what} is reported as invalid, and makes no binding`, () => {
    const { bindings, bindingError, refusal } = config({ postgres_changes: [entry] })
    assert.deepEqual([bindings, refusal], [[], undefined])
    assert.notEqual(bindingError, undefined)
  })

test('join config: entries and presence keys above the size limit are rejected', () => {
  const filter = `a=eq.${'x'.repeat(9_000)}`
  const entries = Array.from({ length: 12 }, (_, at) => ({
    event: '*',
    schema: 'public',
    table: `t${at}`,
    filter,
  }))
  assert.match(config({ postgres_changes: entries }).refusal ?? '', /^TooManyBindings: /)
  assert.equal(config({ postgres_changes: entries.slice(0, 10) }).refusal, undefined)
  assert.match(config({ presence: { key: 'k'.repeat(256) } }).refusal ?? '', /^PresenceKeyTooLong: /)
})

test('join config: deeply nested values in an entry are echoed as false', () => {
  let deep: unknown = 1
  for (let level = 0; level < 100_000; level++) deep = { deep }
  const { echo, bindings } = config({ postgres_changes: [{ event: deep, schema: 'public', table: deep }] })
  assert.deepEqual([echo, bindings], ['[{"id":1,"event":false,"schema":"public","table":false}]', []])
})
