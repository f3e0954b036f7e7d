import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { DamagedFile, type FrameKind, frameCipher, overheadBytes } from './frames.ts'

const dataKey = randomBytes(32)
const version = crypto.randomUUID()
const cipher = frameCipher(dataKey, version)
const plain = randomBytes(1000)
const sealed = (index = 3, kind: FrameKind = 'inner') => Buffer.concat(cipher.seal(index, kind, [plain]))

test('a frame decrypts to the bytes that were encrypted, however they were split', () => {
  const inParts = Buffer.concat(cipher.seal(3, 'inner', [plain.subarray(0, 1), plain.subarray(1)]))
  assert.deepEqual(cipher.open(3, 'inner', inParts), plain)
  assert.equal(inParts.length, plain.length + overheadBytes)
})

test('encrypting the same bytes for the same index gives another result each time', () => {
  assert.notDeepEqual(sealed(), sealed())
})

test('a frame with any bit flipped does not open', () => {
  const stored = sealed()
  for (const at of [0, 11, 12, 500, stored.length - 17, stored.length - 16, stored.length - 1]) {
    const flipped = Buffer.from(stored)
    flipped[at]! ^= 1
    assert.throws(() => cipher.open(3, 'inner', flipped), DamagedFile, `byte ${at}`)
  }
})

test('a frame opens only at its own index and as its own kind', () => {
  assert.throws(() => cipher.open(4, 'inner', sealed(3)), DamagedFile)
  assert.throws(() => cipher.open(3, 'last', sealed(3)), DamagedFile)
  assert.throws(() => cipher.open(3, 'inner', sealed(3, 'last')), DamagedFile)
  assert.throws(() => cipher.open(3, 'inner', sealed(3, 'tail')), DamagedFile)
})

test('a truncated frame does not open', () => {
  const stored = sealed()
  for (const length of [0, 5, 12, 27, 28, stored.length - 1])
    assert.throws(() => cipher.open(3, 'inner', stored.subarray(0, length)), DamagedFile, `${length} bytes`)
})

test('a frame of another file or project does not open', () => {
  const stored = sealed()
  assert.throws(() => frameCipher(dataKey, crypto.randomUUID()).open(3, 'inner', stored), DamagedFile)
  assert.throws(() => frameCipher(randomBytes(32), version).open(3, 'inner', stored), DamagedFile)
})
