import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decodePacket, encodePacket } from './packet.ts'

const node = '00ff10a5de0d0a00'

test('bus packet: node and payload survive encoding byte for byte', () => {
  for (const bytes of [[], [0], [13, 10, 255, 0, 36]]) {
    const payload = Buffer.from(bytes)
    assert.deepEqual(decodePacket(encodePacket(node, payload)), { node, payload })
  }
})

test('bus packet: truncated packets and packets of another format are rejected', () => {
  const packet = encodePacket(node, Buffer.from('x'))
  for (const length of [0, 1, 8]) assert.equal(decodePacket(packet.subarray(0, length)), undefined)
  assert.equal(decodePacket(Buffer.concat([Buffer.from([2]), packet.subarray(1)])), undefined)
})
