import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Presence, trackedMeta } from './presence.ts'

const at = (key: string, ref: string, node = '') => ({
  key,
  ref,
  meta: trackedMeta(`{"of":"${ref}"}`, ref, undefined),
  node,
})
const taken = (presence: Presence) => JSON.parse(presence.takeDiff().json)

test('the state lists the metas of each key, whatever its name', () => {
  const presence = new Presence()
  presence.join(at('a', '1'))
  presence.join(at('__proto__', '2'))
  presence.join(at('a', '3'))
  assert.equal(
    presence.state(),
    '{"a":{"metas":[{"of":"1","phx_ref":"1"},{"of":"3","phx_ref":"3"}]},"__proto__":{"metas":[{"of":"2","phx_ref":"2"}]}}',
  )
})

test('a diff tells what has changed since the last, and nothing of those who came and went', () => {
  const presence = new Presence()
  presence.join(at('a', '1'))
  presence.join(at('b', '2'))
  presence.leave('2')
  assert.deepEqual(taken(presence), { joins: { a: { metas: [{ of: '1', phx_ref: '1' }] } }, leaves: {} })
  presence.leave('1')
  presence.leave('unknown')
  assert.deepEqual(taken(presence), { joins: {}, leaves: { a: { metas: [{ of: '1', phx_ref: '1' }] } } })
  assert.equal(presence.isChanged, false)
  assert.equal(presence.isEmpty, true)
})

test('a phx_ref counts, whatever else is tracked under that name', () => {
  assert.deepEqual(JSON.parse(trackedMeta(' { "phx_ref" : "mine", "n": 1 } ', 'theirs', 'before')), {
    n: 1,
    phx_ref: 'theirs',
    phx_ref_prev: 'before',
  })
  assert.equal(trackedMeta('{ }', 'x', undefined), '{"phx_ref":"x"}')
})

test('no more is kept than can be told; what takes the place of something counts instead of it', () => {
  const presence = new Presence()
  const large = (ref: string, node = '') => ({ key: 'k', ref, meta: `{"x":"${'x'.repeat(400_000)}"}`, node })
  assert.deepEqual([presence.join(large('1')), presence.join(large('2', 'other'))], [true, true])
  assert.equal(presence.join(large('3', 'other')), false)
  assert.equal(presence.join(large('4'), large('1')), true)
  assert.equal(presence.join(large('5'), large('unknown')), false)
  presence.leave('2')
  presence.leave('3')
  assert.equal(presence.join(large('5')), true)
  assert.deepEqual(
    presence.of('').map(({ ref }) => ref),
    ['4', '5'],
  )
})
