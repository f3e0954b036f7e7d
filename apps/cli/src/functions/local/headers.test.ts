import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addressIn, forwarded, returned } from './headers.ts'

test('functions serve: an address has the name of a function, and the function sees the path from its name on', () => {
  const parsed = (url: string) => {
    const { name, target } = addressIn(url)
    return [name, target]
  }
  assert.deepEqual(parsed('/functions/v1/hello'), ['hello', '/hello'])
  assert.deepEqual(parsed('/functions/v1/hello/a%20b/?x=1?2'), ['hello', '/hello/a%20b/?x=1?2'])
  assert.deepEqual(parsed('/hello/a'), ['hello', '/hello/a'])
  assert.deepEqual(parsed('/functions/v1'), ['', '/'])
  assert.deepEqual(parsed('/functions/v10'), ['functions', '/functions/v10'])
})

test('functions serve: callers cannot send the headers of the platform, and functions cannot return them', () => {
  const sent = forwarded(
    {
      headers: {
        'x-platform-role': 'service_role',
        'x-platform-entry': 'file:///etc/x',
        connection: 'close',
        a: '1',
      },
    },
    { 'x-platform-role': 'anon' },
  )
  assert.deepEqual(sent, { a: '1', 'x-forwarded-for': '', 'x-platform-role': 'anon' })
  const { outcome, headers } = returned([
    ...['x-platform-outcome', 'boot', 'transfer-encoding', 'chunked'],
    ...['b', '2', 'b', '3', 'constructor', '4'],
  ])
  assert.equal(outcome, 'boot')
  assert.deepEqual({ ...headers }, { b: ['2', '3'], constructor: ['4'] })
})
