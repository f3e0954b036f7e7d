import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorFrom } from './database-error.ts'

const body = Buffer.from('SERROR\0VERROR\0CP0001\0Mtoo long to be kept\0\0')

test('an error is read from the midst of other messages', () => {
  const bytes = Buffer.concat([Buffer.from('before\0'), body, Buffer.from('Zbehind\0')])
  const { code, message, severity } = errorFrom(bytes, 7, 7 + body.length)
  assert.deepEqual([severity, code, message], ['ERROR', 'P0001', 'too long to be kept'])
})

test('an error that was cut has what was left of it', () => {
  const { code, message } = errorFrom(body.subarray(0, body.length - 12), 0, body.length)
  assert.deepEqual([code, message], ['P0001', 'too long '])
})
