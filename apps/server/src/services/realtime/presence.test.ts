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

test('presence: the state lists the metas of each key, including __proto__', () => {
  const presence = new Presence()
  presence.join(at('a', '1'))
  presence.join(at('__proto__', '2'))
  presence.join(at('a', '3'))
  assert.equal(
    presence.state(),
    '{"a":{"metas":[{"of":"1","phx_ref":"1"},{"of":"3","phx_ref":"3"}]},"__proto__":{"metas":[{"of":"2","phx_ref":"2"}]}}',
  )
})

test('presence: a diff has the changes since the last one, without those that joined and left meanwhile', () => {
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

test('presence: a client cannot override phx_ref', () => {
  assert.deepEqual(JSON.parse(trackedMeta(' { "phx_ref" : "mine", "n": 1 } ', 'theirs', 'before')), {
    n: 1,
    phx_ref: 'theirs',
    phx_ref_prev: 'before',
  })
  assert.equal(trackedMeta('{ }', 'x', undefined), '{"phx_ref":"x"}')
})

test('presence: a topic has a size limit, and a replaced entry does not count', () => {
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
