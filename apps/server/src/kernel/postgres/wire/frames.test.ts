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

/** Reads it as it is read from a socket: every chunk lies where the one before it lay. */
function read(bytes: Buffer, sizes: () => number, frames = new Frames()): string[] {
  const lent = Buffer.alloc(1_000_000)
  const kept: { type: string; body: Buffer; length: number }[] = []
  for (let at = 0; at < bytes.length; ) {
    const size = Math.min(sizes(), bytes.length - at)
    lent.fill(0xff)
    bytes.copy(lent, 0, at, at + size)
    frames.push(lent.subarray(0, size), (type, memory, start, end, isOwn) => {
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

/** A body of one letter alone by its first letters and how many there are. */
const abridged = (body: Buffer) =>
  body.length > 5 && body.every(byte => byte === body[0])
    ? `${body.toString('latin1', 0, 5)}…${body.length}`
    : body.toString('latin1')

const whole = ['A:6:first\0', 'B:70000:bbbbb…70000', 'C:0:', 'D:5:last\0']

for (const size of [1, 3, 5, 6, 7, 64, 4096, 65_536, 1_000_000])
  test(`messages come out whole from chunks of ${size} bytes`, () =>
    assert.deepEqual(
      read(stream, () => size),
      whole,
    ))

test('messages come out whole from chunks of any sizes', () => {
  for (let run = 0; run < 50; run++)
    assert.deepEqual(
      read(stream, () => 1 + Math.floor(Math.random() ** 4 * 30_000)),
      whole,
    )
})

test('a message that comes in pieces is gathered in memory of its own and of its exact size', () => {
  const frames = new Frames()
  const gathered: Buffer[] = []
  for (let at = 0; at < stream.length; at += 4096)
    frames.push(stream.subarray(at, at + 4096), (_type, memory, _start, _end, isOwn) => {
      if (isOwn) gathered.push(memory)
    })
  assert.deepEqual(
    gathered.map(({ length }) => length),
    [70_005],
  )
  assert.notEqual(gathered[0]!.buffer, stream.buffer)
})

test('a body larger than is allowed is cut and tells how long it was, and the next message is whole', () => {
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
