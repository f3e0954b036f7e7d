// Encryption and decryption of files, on a real directory and a real S3 server.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync, readlinkSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type ByteSource, readAll } from '#src/kernel/byte-source.ts'
import { openFile } from '#src/kernel/objects/file-reader.ts'
import { openFileWriter, type Progress } from '#src/kernel/objects/file-writer.ts'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { DamagedFile, frameBytes, frameCipher } from '#src/kernel/objects/frames.ts'
import { framesInPiece, pieceCount } from '#src/kernel/objects/layout.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { openS3Pieces } from '#src/kernel/objects/s3.ts'
import { startS3 } from './s3-server.ts'

const pieceBytes = framesInPiece * frameBytes
const project = crypto.randomUUID()
const dataKey = randomBytes(32)
const bytes = randomBytes(2 * pieceBytes + 3 * frameBytes + 77)

let directory: string
let s3: Awaited<ReturnType<typeof startS3>>
const engines: Record<string, Pieces> = {}
before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'plinth-encrypted-'))
  s3 = await startS3()
  engines['directory'] = await openDirectoryPieces(directory)
  engines['S3'] = await openS3Pieces(s3.settings)
})
after(async () => {
  for (const pieces of Object.values(engines)) await pieces.close()
  await s3.stop()
  await rm(directory, { recursive: true, force: true })
})

interface Stored {
  pieces: Pieces
  version: string
  size: number
}

async function store(pieces: Pieces, content: Buffer, chunkBytes = 100_000): Promise<Stored> {
  const version = crypto.randomUUID()
  const writer = openFileWriter({
    pieces,
    cipher: frameCipher(dataKey, version),
    address: { project, version },
  })
  for (let at = 0; at < content.length; at += chunkBytes)
    await writer.write([content.subarray(at, at + chunkBytes)])
  await writer.end()
  assert.equal(writer.size, content.length)
  return { pieces, version, size: content.length }
}

async function read({ pieces, version, size }: Stored, from = 0, to = size, key = dataKey): Promise<Buffer> {
  const cipher = frameCipher(key, version)
  return readAll(await openFile({ pieces, cipher, address: { project, version }, size, from, to }))
}

for (const engine of ['directory', 'S3']) {
  test(`encrypted files on ${engine}: a file of any size reads back unchanged`, async () => {
    const sizes = [0, 1, frameBytes - 1, frameBytes, frameBytes + 1, pieceBytes, pieceBytes + 1, bytes.length]
    for (const size of sizes)
      for (const chunk of [7919, 1_000_003]) {
        const content = bytes.subarray(0, size)
        const stored = await store(engines[engine]!, content, chunk)
        assert.ok((await read(stored)).equals(content), `${size} bytes by ${chunk}`)
      }
  })

  test(`encrypted files on ${engine}: any range is readable`, async () => {
    const stored = await store(engines[engine]!, bytes)
    const edges = [
      0,
      1,
      frameBytes - 1,
      frameBytes,
      pieceBytes - 1,
      pieceBytes,
      pieceBytes + 1,
      2 * pieceBytes,
    ]
    for (const from of edges)
      for (const length of [1, frameBytes, 5 * frameBytes + 1, pieceBytes + 2]) {
        const to = Math.min(bytes.length, from + length)
        assert.ok((await read(stored, from, to)).equals(bytes.subarray(from, to)), `${from} to ${to}`)
      }
  })

  test(`encrypted files on ${engine}: a write resumes after any flush, even after an aborted attempt`, async () => {
    const pieces = engines[engine]!
    const version = crypto.randomUUID()
    const cipher = frameCipher(dataKey, version)
    const resume = (from?: Progress) =>
      openFileWriter({ pieces, cipher, address: { project, version }, ...(from && { from }) })
    let progress: Progress | undefined
    for (let at = 0; at < bytes.length; at += 5_000_000) {
      const lost = resume(progress)
      await lost.write([randomBytes(3_000_000)])
      await lost.abort()
      const writer = resume(progress)
      await writer.write([bytes.subarray(at, at + 5_000_000)])
      progress = await writer.flush()
      assert.equal(
        progress.frames * frameBytes + progress.tail.length,
        Math.min(bytes.length, at + 5_000_000),
      )
    }
    await resume(progress).end()
    assert.ok((await read({ pieces, version, size: bytes.length })).equals(bytes))
  })

  test(`encrypted files on ${engine}: a write resumes after a full piece and discards later bytes`, async () => {
    const pieces = engines[engine]!
    const version = crypto.randomUUID()
    const options = { pieces, cipher: frameCipher(dataKey, version), address: { project, version } }
    const reported: Progress[] = []
    const cut = openFileWriter({ ...options, onPiece: async progress => void reported.push(progress) })
    await cut.write([Buffer.from(bytes)])
    await cut.abort()
    assert.equal(reported.length, 2)
    for (const from of reported) {
      assert.equal(from.frames * frameBytes + from.tail.length, bytes.length)
      await openFileWriter({ ...options, from }).end()
      assert.ok((await read({ pieces, version, size: bytes.length })).equals(bytes), `${from.frames}`)
    }
  })

  test(`encrypted files on ${engine}: a file does not open with another key`, async () => {
    const stored = await store(engines[engine]!, bytes.subarray(0, 5000))
    await assert.rejects(read(stored, 0, 5000, randomBytes(32)), DamagedFile)
  })
}

async function filesOf(version: string): Promise<string[]> {
  const folder = join(directory, project, version.slice(0, 2))
  const names = (await readdir(folder)).filter(name => name.startsWith(version)).sort()
  return names.map(name => join(folder, name))
}

test('encrypted files: no plain text is on disk', async () => {
  const mark = 'a sentence that would be found anywhere'
  const { version } = await store(engines['directory']!, Buffer.from(mark.repeat(3000)))
  for (const file of await filesOf(version)) assert.ok(!(await readFile(file)).includes(mark))
})

test('encrypted files: a truncated, extended, missing or empty piece fails, even for a range before the damage', async () => {
  const damages: ((file: string) => Promise<unknown>)[] = [
    file => truncate(file, 1000),
    async file => truncate(file, (await readFile(file)).length - 1),
    async file => writeFile(file, Buffer.concat([await readFile(file), Buffer.alloc(1)])),
    file => rm(file),
    file => truncate(file, 0),
  ]
  for (const damage of damages)
    for (let piece = 0; piece < pieceCount(bytes.length); piece++) {
      const stored = await store(engines['directory']!, bytes)
      const files = await filesOf(stored.version)
      await damage(files[piece]!)
      await assert.rejects(read(stored))
      await assert.rejects(read(stored, piece * pieceBytes, piece * pieceBytes + 1))
    }
})

test('encrypted files: swapped pieces, or pieces of another file, fail', async () => {
  const pieces = engines['directory']!
  const stored = await store(pieces, bytes)
  const [first, second] = await filesOf(stored.version)
  await rename(first!, `${first}.kept`)
  await rename(second!, first!)
  await rename(`${first}.kept`, second!)
  await assert.rejects(read(stored), DamagedFile)

  const [one, other] = [await store(pieces, bytes), await store(pieces, bytes)]
  await writeFile((await filesOf(one.version))[1]!, await readFile((await filesOf(other.version))[1]!))
  await assert.rejects(read(one), DamagedFile)
  assert.ok((await read(other)).equals(bytes))
})

/** Contents of the files in the directory. */
const openDescriptors = () =>
  readdirSync('/proc/self/fd').filter(fd => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith(directory)
    } catch {
      return false
    }
  }).length

test('encrypted files: a file is closed after the read, even if it is damaged or the reader aborts', async () => {
  const pieces = engines['directory']!
  const stored = await store(pieces, bytes)
  const { version, size } = stored
  const cipher = frameCipher(dataKey, version)
  const reading = () =>
    openFile({
      pieces,
      cipher,
      address: { project, version },
      size,
      from: 0,
      to: size,
    }) as Promise<ByteSource>
  // Past the end of the first piece, so that in one case the second piece is being opened.
  for (let runs = 0; runs <= framesInPiece / 4; runs++)
    for (const isUnderWay of [false, true]) {
      const source = await reading()
      for (let run = 0; run < runs && source.hasMore; run++) await source.next()
      const next = isUnderWay && source.hasMore ? source.next().catch(() => {}) : undefined
      await source.close()
      assert.equal(openDescriptors(), 0, `after ${runs} runs`)
      await next
    }
  const [first] = await filesOf(version)
  const damaged = await readFile(first!)
  damaged[5]! ^= 1
  await writeFile(first!, damaged)
  await assert.rejects(read(stored), DamagedFile)
  assert.equal(openDescriptors(), 0, 'after damage')
})

test('encrypted files: a file with a wrong size does not open', async () => {
  const stored = await store(engines['directory']!, bytes.subarray(0, 3 * frameBytes))
  for (const size of [0, 1, 2 * frameBytes, 3 * frameBytes - 1, 3 * frameBytes + 1])
    await assert.rejects(read({ ...stored, size }), `${size} bytes`)
})
