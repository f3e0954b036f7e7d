import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errorFrom } from './error-response.ts'

const body = Buffer.from('SERROR\0VERROR\0CP0001\0Mtoo long to be kept\0\0')

test('an error is decoded from a buffer with other messages before and after it', () => {
  const bytes = Buffer.concat([Buffer.from('before\0'), body, Buffer.from('Zbehind\0')])
  const { code, message, severity } = errorFrom(bytes, 7, 7 + body.length)
  assert.deepEqual([severity, code, message], ['ERROR', 'P0001', 'too long to be kept'])
})

test('a truncated error keeps the fields that arrived', () => {
  const { code, message } = errorFrom(body.subarray(0, body.length - 12), 0, body.length)
  assert.deepEqual([code, message], ['P0001', 'too long '])
})

test('every field of an error is decoded', () => {
  const full = Buffer.from('VFATAL\0C23505\0Mm\0Dd\0Hh\0P7\0Ww\0ss\0tt\0cc\0nn\0Rr\0\0')
  assert.deepEqual(
    { ...errorFrom(full, 0, full.length) },
    {
      name: 'DatabaseError',
      severity: 'FATAL',
      code: '23505',
      detail: 'd',
      hint: 'h',
      position: 7,
      where: 'w',
      schema: 's',
      table: 't',
      column: 'c',
      constraint: 'n',
      routine: 'r',
      isWhileRunning: false,
      isAfterOthers: false,
    },
  )
})
