// Compressed and encrypted files, on a real directory and a real S3 server.
import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import { openFileWriter } from '#src/kernel/objects/file-writer.ts'
import { DamagedFile, frameBytes, frameCipher, overheadBytes } from '#src/kernel/objects/frames.ts'
import { frameCount, framesInPiece } from '#src/kernel/objects/layout.ts'
import { type PackedFile, readPacked, writePacked } from '#src/kernel/objects/packed-file.ts'
import { MissingPiece, type Pieces } from '#src/kernel/objects/pieces.ts'
import { namesOf, pieceEngines } from './piece-engines.ts'

const { dataDir, engines } = pieceEngines('directory', 'S3')
const root = join(dataDir, 'objects')
const dataKey = randomBytes(32)
const pieceBytes = framesInPiece * frameBytes
/** Does not compress, so that it has three pieces. */
const content = randomBytes(2 * pieceBytes + 100_000)

interface Stored {
  pieces: Pieces
  project: string
  version: string
  file: PackedFile
}

async function store(pieces: Pieces, bytes: Buffer, chunkBytes = 100_000): Promise<Stored> {
  const [project, version] = [randomUUID(), randomUUID()]
  const writer = writePacked(pieces, dataKey, project, version)
  for (let at = 0; at < bytes.length; at += chunkBytes)
    await writer.write(bytes.subarray(at, at + chunkBytes))
  return { pieces, project, version, file: await writer.end() }
}

const reading = ({ pieces, project, version, file }: Stored, expected: Partial<PackedFile> = {}) =>
  readPacked(pieces, dataKey, project, version, { ...file, ...expected })

async function read(stored: Stored, expected: Partial<PackedFile> = {}): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of reading(stored, expected)) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const sizeOf = async ({ pieces, project }: Stored): Promise<number> => {
  let bytes = 0
  for await (const { size } of pieces.list(project)) bytes += size
  return bytes
}

for (const engine of ['directory', 'S3'])
  test(`packed files on ${engine}: a file of any size reads back unchanged`, async () => {
    for (const bytes of [Buffer.alloc(0), Buffer.from('a'), Buffer.alloc(30_000_000, 'abc'), content])
      for (const chunkBytes of [8_000, 5_000_000]) {
        const stored = await store(engines[engine]!, bytes, chunkBytes)
        const { mac, ...sizes } = stored.file
        assert.deepEqual(sizes, { bytes: bytes.length, storedBytes: await sizeOf(stored) })
        assert.match(mac!, /^[0-9a-f]{56}$/)
        assert.ok((await read(stored)).equals(bytes), `${bytes.length} bytes by ${chunkBytes}`)
      }
  })

const text = Buffer.from('a sentence that would be found anywhere\n'.repeat(100_000))

test('packed files: rows of text need a fraction of their size and are not on disk', async () => {
  const stored = await store(engines['directory']!, text)
  assert.ok(stored.file.storedBytes < text.length / 10)
  for (const file of await filesOf(stored)) assert.ok(!(await readFile(file)).includes('sentence'))
})

async function filesOf({ project, version }: Stored): Promise<string[]> {
  const folder = join(root, project, version.slice(0, 2))
  return (await readdir(folder)).sort().map(name => join(folder, name))
}

const openDescriptors = () =>
  readdirSync('/proc/self/fd').filter(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(dataDir)
    } catch {
      return false
    }
  }).length

async function flip(file: string, at: number): Promise<void> {
  const bytes = await readFile(file)
  bytes[at]! ^= 1
  await writeFile(file, bytes)
}

test('packed files: a flipped byte, a cut piece and a missing piece fail', async () => {
  const damages: [(file: string) => Promise<unknown>, typeof DamagedFile | typeof MissingPiece][] = [
    [file => flip(file, 0), DamagedFile],
    [file => flip(file, 70_000), DamagedFile],
    [async file => truncate(file, (await readFile(file)).length - 1), DamagedFile],
    [file => truncate(file, 0), DamagedFile],
    [file => rm(file), MissingPiece],
  ]
  for (const [damage, kind] of damages)
    for (const piece of [0, 1, 2]) {
      const stored = await store(engines['directory']!, content)
      await damage((await filesOf(stored))[piece]!)
      await assert.rejects(read(stored), kind)
      assert.equal(openDescriptors(), 0)
    }
})

test('packed files: swapped files fail', async () => {
  const pieces = engines['directory']!
  const [one, other] = [await store(pieces, text), await store(pieces, text)]
  const [[first], [second]] = [await filesOf(one), await filesOf(other)]
  await rename(first!, `${first}.kept`)
  await rename(second!, first!)
  await rename(`${first}.kept`, second!)
  await assert.rejects(read(one), DamagedFile)
  await assert.rejects(read(other), DamagedFile)
})

test('packed files: one of an earlier release, which has a hash in place of a MAC, reads back unchanged', async () => {
  const stored = await store(engines['directory']!, text)
  const { mac: _, ...sizes } = stored.file
  const hashed = { ...stored, file: { ...sizes, sha256: createHash('sha256').update(text).digest('hex') } }
  assert.ok((await read(hashed)).equals(text))
  hashed.file.sha256 = createHash('sha256').update('other').digest('hex')
  await assert.rejects(read(hashed), DamagedFile)
})

test('packed files: a file with another length, MAC or key fails', async () => {
  const stored = await store(engines['directory']!, text)
  const other = await store(engines['directory']!, text)
  for (const expected of [
    { bytes: text.length - 1 },
    { bytes: text.length + 1 },
    { bytes: 0 },
    { mac: other.file.mac! },
    { storedBytes: 0 },
    { storedBytes: 5 },
    { storedBytes: stored.file.storedBytes - 1 },
    { storedBytes: stored.file.storedBytes + 70_000 },
  ])
    await assert.rejects(read(stored, expected), DamagedFile, JSON.stringify(expected))
  const { pieces, project, version, file } = stored
  const opened = readPacked(pieces, randomBytes(32), project, version, file)
  await assert.rejects(opened.next(), DamagedFile)
})

/** A file with this compressed content, which `writePacked` may never write. */
async function storeCompressed(packed: Buffer, bytes: number): Promise<Stored> {
  const pieces = engines['directory']!
  const [project, version] = [randomUUID(), randomUUID()]
  const writer = openFileWriter({
    pieces,
    cipher: frameCipher(dataKey, version),
    address: { project, version },
  })
  await writer.write([Buffer.from(packed)])
  await writer.end()
  const storedBytes = packed.length + frameCount(packed.length) * overheadBytes
  return { pieces, project, version, file: { bytes, storedBytes, sha256: '' } }
}

test('packed files: no more bytes are decompressed than expected', async () => {
  const bomb = await storeCompressed(zstdCompressSync(Buffer.alloc(300_000_000)), 1_000_000)
  let bytes = 0
  const work = async () => {
    for await (const chunk of reading(bomb)) bytes += chunk.length
  }
  await assert.rejects(work(), DamagedFile)
  assert.ok(bytes <= 1_000_000)
})

test('packed files: content that is not compressed, or incomplete, fails', async () => {
  for (const packed of [
    Buffer.alloc(0),
    Buffer.from('not compressed'),
    zstdCompressSync(text).subarray(0, -5),
  ])
    await assert.rejects(read(await storeCompressed(packed, text.length)), DamagedFile)
})

test('packed files: a reader that stops early leaves no open file', async () => {
  const stored = await store(engines['directory']!, content)
  for await (const chunk of reading(stored)) if (chunk.length > 0) break
  assert.equal(openDescriptors(), 0)
  await reading(stored).return(undefined)
  assert.equal(openDescriptors(), 0)
})

for (const engine of ['directory', 'S3'])
  test(`packed files on ${engine}: an aborted file leaves nothing`, async () => {
    const pieces = engines[engine]!
    for (const bytes of [0, 1000, pieceBytes + 1000, content.length])
      for (const isEnded of [false, true]) {
        const [project, version] = [randomUUID(), randomUUID()]
        const writer = writePacked(pieces, dataKey, project, version)
        await writer.write(content.subarray(0, bytes))
        if (isEnded) await writer.end()
        await writer.abort()
        assert.deepEqual(await namesOf(pieces, project), [])
        assert.equal(openDescriptors(), 0)
      }
  })

test('packed files: an error of the storage is thrown by a later write and by end', async () => {
  const project = randomUUID()
  // A file where the folder of the project would be.
  await writeFile(join(root, project), '')
  const writer = writePacked(engines['directory']!, dataKey, project, randomUUID())
  await assert.rejects(async () => {
    for (;;) await writer.write(content)
  }, /ENOTDIR|EEXIST/)
  await assert.rejects(writer.end(), /ENOTDIR|EEXIST/)
  await writer.abort()
})
