import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decode, encode } from './messages.ts'

const bytesOf = (...parts: (number[] | string)[]) => {
  const bytes = Buffer.concat(parts.map(part => Buffer.from(part as string)))
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer
}

test('realtime messages: encode and decode an array', () => {
  const sent = encode('1', 'realtime:x', 'phx_join', { a: 1 })
  assert.equal(sent, '["1","1","realtime:x","phx_join",{"a":1}]')
  assert.deepEqual(decode(sent), { ref: '1', topic: 'realtime:x', event: 'phx_join', payload: { a: 1 } })
  assert.equal(encode('h', 'phoenix', 'heartbeat', {}), '[null,"h","phoenix","heartbeat",{}]')
})

test('realtime messages: numbers too large for JavaScript keep their digits', () => {
  const message = decode('[null,null,"t","e",{"id":12345678901234567890,"price":1.10,"n":7}]')
  assert.equal(JSON.stringify(message!.payload), '{"id":12345678901234567890,"price":1.10,"n":7}')
})

test('realtime messages: decode binary broadcasts with JSON or bytes', () => {
  const json = decode(bytesOf([4, 10, 3, 2, 1], 'realtime:x', 'say', '{}', '{"a":"ü"}'))
  assert.deepEqual(json, {
    ref: null,
    topic: 'realtime:x',
    event: 'broadcast',
    payload: { event: 'say', payload: { a: 'ü' } },
  })
  const binary = decode(bytesOf([4, 10, 3, 0, 0], 'realtime:x', 'say', [0, 255]))
  assert.deepEqual(binary!.payload, { event: 'say', bytes: 'AP8=' })
})

test('realtime messages: an invalid message decodes to null', () => {
  for (const wrong of ['', '{}', 'null', '[]', '[1,2,3,4,5]', '{"topic":"x"}'])
    assert.equal(decode(wrong), null)
  for (const wrong of [[], [9, 1, 1, 1, 1], [4, 255, 255, 255, 1]])
    assert.equal(decode(bytesOf(wrong)), null, JSON.stringify(wrong))
})
