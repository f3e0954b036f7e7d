import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openEnvelope, sealEnvelope } from './envelope.ts'

const node = '00ff10a5de0d0a00'

test('an envelope says who and what, byte by byte', () => {
  for (const bytes of [[], [0], [13, 10, 255, 0, 36]]) {
    const message = Buffer.from(bytes)
    assert.deepEqual(openEnvelope(sealEnvelope(node, message)), { node, message })
  }
})

test('what is no envelope, or one of another release, is not opened', () => {
  const sealed = sealEnvelope(node, Buffer.from('x'))
  for (const length of [0, 1, 8]) assert.equal(openEnvelope(sealed.subarray(0, length)), undefined)
  assert.equal(openEnvelope(Buffer.concat([Buffer.from([2]), sealed.subarray(1)])), undefined)
})
