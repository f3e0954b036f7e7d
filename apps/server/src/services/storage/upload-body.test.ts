import assert from 'node:assert/strict'
import { once } from 'node:events'
import { PassThrough, Readable, Writable } from 'node:stream'
import { mock, test } from 'node:test'
import { Refusal } from '#src/kernel/errors.ts'
import { bodyChunks, feed, metadataFromText, pieceBytes } from './upload-body.ts'

test('upload body: a silent body times out, but not while the reader is paused', async () => {
  mock.timers.enable({ apis: ['setTimeout'] })
  try {
    const body = new PassThrough()
    const chunks = bodyChunks(body)
    const first = chunks.next()
    mock.timers.tick(29_000)
    body.write('some')
    assert.equal(String((await first).value), 'some')
    // A slow reader must not cause a timeout.
    mock.timers.tick(100_000)
    assert.equal(body.destroyed, false)
    const second = chunks.next()
    mock.timers.tick(29_000)
    body.write('more')
    assert.equal(String((await second).value), 'more')
    const third = chunks.next()
    mock.timers.tick(30_000)
    await assert.rejects(third, error => error instanceof Refusal && error.code === 'client_closed_request')
    assert.equal(body.destroyed, true)
  } finally {
    mock.timers.reset()
  }
})

test('upload body: a form rejected in the middle of a chunk is not parsed further, and its body stays open', async () => {
  const body = Readable.from([Buffer.alloc(10 * pieceBytes), Buffer.alloc(pieceBytes)])
  const read: number[] = []
  const form = new Writable({
    write(chunk: Buffer, _encoding, done) {
      read.push(chunk.length)
      if (read.length === 2) this.destroy(new Error('refused'))
      done()
    },
  })
  feed(form, body)
  await assert.rejects(once(form, 'finish'), /refused/)
  assert.deepEqual(read, [pieceBytes, pieceBytes])
  assert.equal(body.destroyed, false)
})

test('upload body: a slow form pauses its body and receives all of it', async () => {
  const body = Readable.from(Array.from({ length: 20 }, () => Buffer.alloc(3 * pieceBytes + 1)))
  let read = 0
  const form = new Writable({
    write(chunk: Buffer, _encoding, done) {
      read += chunk.length
      setImmediate(done)
    },
  })
  feed(form, body)
  await once(form, 'finish')
  assert.equal(read, 20 * (3 * pieceBytes + 1))
})

test('upload body: metadata has at most 10,000 values', () => {
  const list = (count: number) => `{"list":[${Array(count).fill('1234567').join()}]}`
  assert.ok(metadataFromText(list(9_998)))
  assert.throws(() => metadataFromText(list(10_000)), { status: 400 })
})
