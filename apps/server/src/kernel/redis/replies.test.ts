import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RedisError } from './redis-error.ts'
import { createReplies, type RedisReply } from './replies.ts'

function parsed(chunks: Buffer[], wantsBytes = false): RedisReply[] {
  const found: RedisReply[] = []
  const replies = createReplies(
    reply => void found.push(reply),
    () => wantsBytes,
  )
  for (const chunk of chunks) replies.take(chunk)
  return found
}

const stream = [
  '+OK\r\n',
  ':42\r\n',
  ':-1\r\n',
  ':9223372036854775807\r\n',
  '$-1\r\n',
  '$0\r\n\r\n',
  '$8\r\na\r\nb\0\r\nc\r\n',
  '$7\r\n日😀\r\n',
  '*-1\r\n',
  '*0\r\n',
  '*3\r\n$1\r\n7\r\n*2\r\n$1\r\na\r\n$-1\r\n:5\r\n',
  '*2\r\n*0\r\n*1\r\n*1\r\n+x\r\n',
].join('')
const values: RedisReply[] = [
  'OK',
  42,
  -1,
  9223372036854775807n,
  null,
  '',
  'a\r\nb\0\r\nc',
  '日😀',
  null,
  [],
  ['7', ['a', null], 5],
  [[], [['x']]],
]

test('every kind of reply is parsed', () => assert.deepEqual(parsed([Buffer.from(stream)]), values))

test('replies may arrive in pieces of any size', () => {
  const bytes = Buffer.from(stream)
  for (let size = 1; size <= bytes.length; size++) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
      bytes.subarray(index * size, (index + 1) * size),
    )
    assert.deepEqual(parsed(pieces), values, `pieces of ${size}`)
  }
})

test('strings are returned as bytes on request', () => {
  const bytes = Buffer.from([...Buffer.from('$3\r\n'), 0xff, 0, 0xfe, 13, 10])
  assert.deepEqual(parsed([bytes], true), [Buffer.from([0xff, 0, 0xfe])])
})

test('the message of an error has its code and not the values it quotes', () => {
  const [error] = parsed([Buffer.from('-WRONGPASS secret\r\n')])
  assert.ok(error instanceof RedisError)
  assert.equal(error.code, 'WRONGPASS')
  assert.doesNotMatch(`${error.message}${error.stack}`, /secret/)
})

test('a long reply in many pieces is parsed once', () => {
  const value = 'x'.repeat(4 * 1024 * 1024)
  const bytes = Buffer.from(`*2\r\n$${value.length}\r\n${value}\r\n$1\r\ny\r\n`)
  const pieces = Array.from({ length: Math.ceil(bytes.length / 1000) }, (_, index) =>
    bytes.subarray(index * 1000, (index + 1) * 1000),
  )
  assert.deepEqual(parsed(pieces), [[value, 'y']])
})

test('input that is not RESP is an error', () =>
  assert.throws(() => parsed([Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n')]), /not Redis/))
