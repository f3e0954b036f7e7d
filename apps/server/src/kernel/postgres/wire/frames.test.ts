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

function read(sizes: () => number): string[] {
  const frames = new Frames()
  const seen: string[] = []
  for (let at = 0; at < stream.length; ) {
    const size = sizes()
    frames.push(Buffer.from(stream.subarray(at, at + size)), (type, bytes, start, end) =>
      seen.push(
        `${String.fromCharCode(type)}:${end - start}:${bytes.toString('latin1', start, Math.min(end, start + 5))}`,
      ),
    )
    at += size
  }
  return seen
}

const whole = ['A:6:first', 'B:70000:bbbbb', 'C:0:', 'D:5:last\0']

for (const size of [1, 3, 5, 6, 7, 64, 4096, 65_536, 1_000_000])
  test(`messages come out whole from chunks of ${size} bytes`, () =>
    assert.deepEqual(
      read(() => size),
      whole,
    ))

test('messages come out whole from chunks of any sizes', () => {
  for (let run = 0; run < 200; run++)
    assert.deepEqual(
      read(() => 1 + Math.floor(Math.random() ** 4 * 30_000)),
      whole,
    )
})
