import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Encoder } from './encoder.ts'

function write(encoder: Encoder, value: string | Buffer): Buffer {
  encoder.bindAndExecute('', [value])
  return encoder.take()
}

test('memory is reused after it was sent, and not while it is being sent', () => {
  const encoder = new Encoder()
  const first = write(encoder, 'first.')
  encoder.release(true)
  const second = write(encoder, 'second')
  assert.ok(first.includes('second'))
  encoder.release(false)
  assert.ok(write(encoder, 'third.').includes('third.'))
  assert.ok(second.includes('second'))
})

test('memory that a large request needed is not kept', () => {
  for (const large of ['ü'.repeat(1_000_000), Buffer.alloc(1_000_000, 1)]) {
    const encoder = new Encoder()
    assert.ok(write(encoder, large).length > 1_000_000)
    encoder.release(true)
    assert.ok(write(encoder, 'small').buffer.byteLength < 100_000)
  }
})
