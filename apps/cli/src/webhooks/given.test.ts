import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Failure } from '../failure.ts'
import { forwardUrl } from './forward.ts'
import { eventsIn, tableIn, webhookIn } from './given.ts'

const id = '0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d'
const other = '0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6e'
const given = (operands: Record<string, string>, values: Record<string, string> = {}) => ({
  operands,
  values,
  switches: new Set<string>(),
})

test('webhooks: the id comes from the argument or a flag, and two different ones are rejected', () => {
  for (const each of [
    given({ webhook: id.toUpperCase() }),
    given({}, { id }),
    given({}, { webhook: id }),
    given({ webhook: id }, { id }),
  ])
    assert.equal(webhookIn(each), id)
  assert.throws(() => webhookIn(given({ webhook: id }, { id: other })), /Two ids/)
  assert.throws(() => webhookIn(given({})), /<webhook> is missing/)
  assert.throws(() => webhookIn(given({ webhook: 'first' })), /not the id of a webhook/)
})

test('webhooks: events are separated by commas or by repeated flags', () => {
  assert.deepEqual(eventsIn('user.created, user.deleted\n*'), ['user.created', 'user.deleted', '*'])
  assert.throws(() => eventsIn('a,,b'), Failure)
})

test('webhooks: a table is named with or without its schema', () => {
  assert.deepEqual(tableIn('todos'), { schema: 'public', table: 'todos' })
  assert.deepEqual(tableIn('app.todos'), { schema: 'app', table: 'todos' })
  assert.deepEqual(tableIn('app.a.b'), { schema: 'app', table: 'a.b' })
  for (const invalid of ['.todos', 'app.', '.']) assert.throws(() => tableIn(invalid), Failure)
})

test('webhooks: --forward-to takes http and https URLs, also without http://', () => {
  assert.equal(forwardUrl('localhost:3000/hooks').href, 'http://localhost:3000/hooks')
  assert.equal(forwardUrl('https://localhost/x?y=1').href, 'https://localhost/x?y=1')
  for (const invalid of ['ftp://localhost/', 'http://', 'http://a b/', '/hooks'])
    assert.throws(() => forwardUrl(invalid), Failure, invalid)
})
