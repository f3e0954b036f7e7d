import assert from 'node:assert/strict'
import { test } from 'node:test'
import { message } from './encoder.ts'
import { Frames } from './frames.ts'

const stream = Buffer.concat([
  message('A', 'first'),
  message('B', Buffer.alloc(70_000, 0x62)),
  message('C'),
  message('D', 'last'),
])

/** Reads chunks as from a socket: every chunk overwrites the memory of the previous one. */
function read(bytes: Buffer, sizes: () => number, frames = new Frames()): string[] {
  const shared = Buffer.alloc(1_000_000)
  const kept: { type: string; body: Buffer; length: number }[] = []
  for (let at = 0; at < bytes.length; ) {
    const size = Math.min(sizes(), bytes.length - at)
    shared.fill(0xff)
    bytes.copy(shared, 0, at, at + size)
    frames.push(shared.subarray(0, size), (type, memory, start, end, isOwn) => {
      const body = memory.subarray(start, end)
      kept.push({
        type: String.fromCharCode(type),
        body: isOwn ? body : Buffer.from(body),
        length: end - start,
      })
    })
    at += size
  }
  return kept.map(({ type, body, length }) => `${type}:${length}:${abridged(body)}`)
}

/** Abbreviates a body that repeats one letter. */
const abridged = (body: Buffer) =>
  body.length > 5 && body.every(byte => byte === body[0])
    ? `${body.toString('latin1', 0, 5)}…${body.length}`
    : body.toString('latin1')

const whole = ['A:6:first\0', 'B:70000:bbbbb…70000', 'C:0:', 'D:5:last\0']

for (const size of [1, 3, 5, 6, 7, 64, 4096, 65_536, 1_000_000])
  test(`messages are reassembled from chunks of ${size} bytes`, () =>
    assert.deepEqual(
      read(stream, () => size),
      whole,
    ))

test('messages are reassembled from chunks of random sizes', () => {
  for (let run = 0; run < 50; run++)
    assert.deepEqual(
      read(stream, () => 1 + Math.floor(Math.random() ** 4 * 30_000)),
      whole,
    )
})

test('a message that arrives in pieces is copied into its own memory of exact size', () => {
  const frames = new Frames()
  const collected: Buffer[] = []
  for (let at = 0; at < stream.length; at += 4096)
    frames.push(stream.subarray(at, at + 4096), (_type, memory, _start, _end, isOwn) => {
      if (isOwn) collected.push(memory)
    })
  assert.deepEqual(
    collected.map(({ length }) => length),
    [70_005],
  )
  assert.notEqual(collected[0]!.buffer, stream.buffer)
})

test('a body over the limit is truncated and reports its length, and the next message is complete', () => {
  const large = Buffer.concat([message('B', Buffer.alloc(100_001, 0x62)), message('D', 'last')])
  assert.deepEqual(
    read(large, () => 4096, new Frames(100_000)),
    ['B:100001:bbbbb…65531', 'D:5:last\0'],
  )
  assert.deepEqual(
    read(large, () => 4096, new Frames(100_001)),
    ['B:100001:bbbbb…100001', 'D:5:last\0'],
  )
})
