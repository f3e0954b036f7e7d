import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRingMemory, RingReader, RingWriter } from './ring.ts'

function openRing(size: number) {
  const memory = createRingMemory(size)
  let reports = 0
  const reader = new RingReader(memory, () => reports++)
  const read = (max: number) => {
    const target = new Uint8Array(max)
    return [...target.subarray(0, reader.read(target))]
  }
  return { memory, writer: new RingWriter(memory), reader, read, reports: () => reports }
}

test('ring: bytes come out in order, across its end', () => {
  const { writer, reader, read } = openRing(8)
  let next = 0
  for (let turn = 0; turn < 20; turn++) {
    assert.equal(writer.write(Uint8Array.of(next, next + 1, next + 2, next + 3, next + 4)), 5)
    assert.equal(reader.isEmpty, false)
    assert.deepEqual([...read(3), ...read(3)], [next, next + 1, next + 2, next + 3, next + 4])
    assert.equal(reader.isEmpty, true)
    next += 5
  }
})

test('ring: a full one takes what fits, and reports free space once', () => {
  const { writer, read, reports } = openRing(4)
  assert.equal(writer.write(Uint8Array.of(1, 2, 3, 4, 5, 6)), 4)
  assert.equal(writer.write(Uint8Array.of(5, 6)), 0)
  assert.equal(reports(), 0)
  assert.deepEqual(read(1), [1])
  assert.deepEqual(read(1), [2])
  assert.equal(reports(), 1)
  assert.equal(writer.write(Uint8Array.of(5, 6)), 2)
  assert.deepEqual(read(9), [3, 4, 5, 6])
})

test('ring: a closed one first gives the bytes that are left', () => {
  const { writer, read } = openRing(4)
  writer.write(Uint8Array.of(1, 2))
  writer.close()
  assert.deepEqual(read(4), [1, 2])
  assert.deepEqual(read(4), [])
  assert.deepEqual(read(4), [])
})

test('ring: its counters may overflow', () => {
  const { memory, writer, read } = openRing(8)
  new Int32Array(memory.indexes).set([2 ** 31 - 3, 2 ** 31 - 3])
  assert.equal(writer.write(Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9)), 8)
  assert.deepEqual(read(9), [1, 2, 3, 4, 5, 6, 7, 8])
  new Int32Array(memory.indexes).set([-3, -3])
  assert.equal(writer.write(Uint8Array.of(1, 2, 3, 4, 5)), 5)
  assert.deepEqual(read(9), [1, 2, 3, 4, 5])
})
