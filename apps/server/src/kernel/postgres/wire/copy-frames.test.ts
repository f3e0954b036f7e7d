import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { CopyFrames } from './copy-frames.ts'
import { message } from './encoder.ts'

const rows = [0, 1, 7, 48, 49, 300, 0, 5000, 70_000, 400_000, 3].map(size => randomBytes(size))
const content = Buffer.concat(rows)
const stream = Buffer.concat([
  message('H', 'begin'),
  ...rows.map(row => message('d', row)),
  message('c'),
  message('C', 'COPY 11'),
])

/** Reads chunks as from a socket: every chunk overwrites the memory of the previous one. */
function read(bytes: Buffer, sizes: () => number) {
  const frames = new CopyFrames()
  const shared = Buffer.alloc(1_000_000)
  const chunks: Buffer[] = []
  const messages: string[] = []
  frames.onChunk = chunk => void chunks.push(chunk)
  for (let at = 0; at < bytes.length; ) {
    const size = Math.min(sizes(), bytes.length - at)
    bytes.copy(shared, 0, at, at + size)
    frames.push(shared.subarray(0, size), (type, memory, start, end) => {
      if (type === 0x63) frames.flush()
      messages.push(`${String.fromCharCode(type)}:${memory.toString('latin1', start, end)}`)
    })
    shared.fill(0xff, 0, size)
    at += size
  }
  return { chunks, messages }
}

function check({ chunks, messages }: ReturnType<typeof read>): void {
  assert.deepEqual(messages, ['H:begin\0', 'c:', 'C:COPY 11\0'])
  assert.ok(Buffer.concat(chunks).equals(content))
  assert.ok(chunks.slice(0, -1).every(({ length }) => length === 128 * 1024))
}

for (const size of [1, 3, 5, 6, 7, 64, 4096, 65_536, 1_000_000])
  test(`the content of CopyData is collected from reads of ${size} bytes`, () =>
    check(read(stream, () => size)))

test('the content of CopyData is collected from reads of random sizes', () => {
  for (let run = 0; run < 50; run++) check(read(stream, () => 1 + Math.floor(Math.random() ** 4 * 30_000)))
})

test('a message is passed on in parts before it is complete', () => {
  const frames = new CopyFrames()
  let bytes = 0
  frames.onChunk = chunk => {
    bytes += chunk.length
  }
  const part = message('d', Buffer.alloc(1_000_000)).subarray(0, 900_000)
  frames.push(part, () => assert.fail('no other message'))
  assert.equal(bytes, Math.floor((900_000 - 5) / 131_072) * 131_072)
})

test('dropped content does not become part of the next chunk', () => {
  const frames = new CopyFrames()
  const chunks: Buffer[] = []
  frames.onChunk = chunk => void chunks.push(chunk)
  frames.push(message('d', 'old'), () => {})
  frames.drop()
  frames.push(message('d', 'new'), () => {})
  frames.flush()
  assert.deepEqual(chunks.map(String), ['new\0'])
})

test('the memory of chunks that are given back is used again', () => {
  const frames = new CopyFrames()
  const memory = new Set<ArrayBufferLike>()
  const contents: Buffer[] = []
  frames.onChunk = chunk => {
    memory.add(chunk.buffer)
    contents.push(Buffer.from(chunk))
    frames.giveBack(chunk)
  }
  for (let run = 0; run < 3; run++)
    frames.push(stream, type => {
      if (type === 0x63) frames.flush()
    })
  assert.ok(Buffer.concat(contents).equals(Buffer.concat([content, content, content])))
  assert.equal(memory.size, 1)
})

test('the memory of chunks that are kept is not used again', () => {
  const kept = read(stream, () => 4096).chunks
  assert.equal(new Set(kept.map(({ buffer }) => buffer)).size, kept.length)
})
