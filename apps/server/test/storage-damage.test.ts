// Files modified on disk: a download fails and never returns other bytes (case 33).
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { after, before, test } from 'node:test'
import { StorageNode, type StoredFiles } from './storage-node.ts'
import { mebibyte, randomFile, sha256 } from './tus-files.ts'

const node = new StorageNode()
let files: StoredFiles
before(async () => {
  await node.start()
  files = await node.createProject()
})
after(() => node.remove())

interface Stored {
  path: string
  body: Buffer
  /** The pieces on disk in order. */
  pieces: string[]
}

let count = 0
async function stored(size: number, at: StoredFiles = files): Promise<Stored> {
  const before = new Set(at.pieces())
  const [path, body] = [`file-${++count}`, randomFile(size)]
  await at.put(path, body)
  const pieces = at.pieces().filter(name => !before.has(name))
  const numberOf = (name: string) => Number(/\d+$/.exec(basename(name))?.[0] ?? 0)
  return { path, body, pieces: pieces.sort((a, b) => numberOf(a) - numberOf(b)) }
}

/** The hash of a download, or `error`, also for a connection that closed early. */
async function read(path: string, range?: string, at: StoredFiles = files): Promise<string> {
  const reply = await at.fetch('GET', `object/files/${path}`, { headers: range ? { range } : {} })
  if (reply.status >= 500) {
    const text = await reply.text()
    assert.doesNotMatch(text, /objects\/|\bat .*\.ts/, 'the error contains no internal details')
    return 'error'
  }
  assert.ok([200, 206].includes(reply.status), `${reply.status}`)
  return await reply.arrayBuffer().then(
    bytes => sha256(Buffer.from(bytes)),
    () => 'error',
  )
}

function flip(piece: string, at: number): void {
  const bytes = fs.readFileSync(piece)
  const position = at < 0 ? bytes.length + at : at
  bytes[position]! ^= 1 << (position % 8)
  fs.writeFileSync(piece, bytes)
}

/** Restores a modified piece. */
async function spoiled(piece: string, spoil: () => void, check: () => Promise<void>): Promise<void> {
  const bytes = fs.readFileSync(piece)
  spoil()
  await check()
  fs.writeFileSync(piece, bytes)
}

test('storage: one flipped bit makes the file fail, and other files still open', async () => {
  const [file, beside] = [await stored(200_000), await stored(200_000)]
  const [piece] = file.pieces
  const size = fs.statSync(piece!).size
  assert.ok(size > file.body.length && size < file.body.length + 10_000, `${size}`)
  assert.ok(!fs.readFileSync(piece!).includes(file.body.subarray(0, 32)), 'the bytes on disk are encrypted')
  for (const at of [
    0,
    5,
    12,
    100,
    65_536,
    65_563,
    65_564,
    65_570,
    131_128,
    Math.floor(size / 2),
    -17,
    -16,
    -1,
  ])
    await spoiled(
      piece!,
      () => flip(piece!, at),
      async () => {
        assert.equal(await read(file.path), 'error', `the bit at ${at}`)
        assert.equal(await read(beside.path), sha256(beside.body))
      },
    )
  assert.equal(await read(file.path), sha256(file.body), 'the restored file is readable')
})

test('storage: a range outside the damage is correct, and a range that includes it fails', async () => {
  const file = await stored(9 * mebibyte)
  assert.equal(file.pieces.length, 2)
  flip(file.pieces[0]!, 5 * mebibyte)
  assert.equal(await read(file.path), 'error')
  const [begin, end] = [await read(file.path, 'bytes=0-999'), await read(file.path, `bytes=${8 * mebibyte}-`)]
  assert.ok(['error', sha256(file.body.subarray(0, 1000))].includes(begin))
  assert.ok(['error', sha256(file.body.subarray(8 * mebibyte))].includes(end))
  const around = `bytes=${5 * mebibyte - 200_000}-${5 * mebibyte + 200_000}`
  assert.equal(await read(file.path, around), 'error')
})

test('storage: a truncated, extended, empty or missing file fails', async () => {
  const file = await stored(9 * mebibyte + 3)
  const [first, last] = file.pieces as [string, string]
  const damages: Record<string, (piece: string) => void> = {
    'its last byte gone': piece => fs.truncateSync(piece, fs.statSync(piece).size - 1),
    'its last frame gone': piece =>
      fs.truncateSync(piece, Math.floor((fs.statSync(piece).size - 1) / 65_564) * 65_564),
    'cut to one frame': piece => fs.truncateSync(piece, 65_564),
    emptied: piece => fs.truncateSync(piece, 0),
    gone: piece => fs.rmSync(piece),
    'longer by a byte': piece => fs.appendFileSync(piece, 'x'),
    'longer by a frame of its own': piece =>
      fs.appendFileSync(piece, fs.readFileSync(piece).subarray(0, 65_564)),
    zeros: piece => fs.writeFileSync(piece, Buffer.alloc(fs.statSync(piece).size)),
  }
  for (const [what, damage] of Object.entries(damages))
    for (const piece of [first, last])
      await spoiled(
        piece,
        () => damage(piece),
        async () => {
          const result = await read(file.path)
          // Bytes after the end are not part of the file.
          const isWhole = what.startsWith('longer') && result === sha256(file.body)
          if (!isWhole) assert.equal(result, 'error', `${what}: ${basename(piece)}`)
        },
      )
  assert.equal(await read(file.path), sha256(file.body))
})

test('storage: reordered frames fail', async () => {
  const file = await stored(300_000)
  const [piece] = file.pieces
  const frame = 65_564
  await spoiled(
    piece!,
    () => {
      const bytes = fs.readFileSync(piece!)
      const swapped = [bytes.subarray(frame, 2 * frame), bytes.subarray(0, frame), bytes.subarray(2 * frame)]
      fs.writeFileSync(piece!, Buffer.concat(swapped))
    },
    async () => {
      assert.equal(await read(file.path), 'error')
      assert.equal(await read(file.path, 'bytes=70000-80000'), 'error')
    },
  )
  const two = await stored(17 * mebibyte)
  const [first, second] = two.pieces as [string, string]
  const bytes = fs.readFileSync(first)
  await spoiled(
    second,
    () => {
      fs.writeFileSync(first, fs.readFileSync(second))
      fs.writeFileSync(second, bytes)
    },
    async () => assert.equal(await read(two.path), 'error'),
  )
  fs.writeFileSync(first, bytes)
  assert.equal(await read(two.path), sha256(two.body))
})

function swap([one]: string[], [other]: string[]): void {
  const kept = fs.readFileSync(one!)
  fs.writeFileSync(one!, fs.readFileSync(other!))
  fs.writeFileSync(other!, kept)
}

test('storage: two swapped files of the same size in a project both fail', async () => {
  const [one, other, third] = [await stored(100_000), await stored(100_000), await stored(100_000)]
  swap(one.pieces, other.pieces)
  for (const { path } of [one, other]) {
    assert.equal(await read(path), 'error')
    assert.equal(await read(path, 'bytes=0-9'), 'error')
  }
  assert.equal(await read(third.path), sha256(third.body))
  swap(one.pieces, other.pieces)
  assert.equal(await read(one.path), sha256(one.body))
})

test('storage: an earlier version in place of the file fails', async () => {
  const file = await stored(50_000)
  const old = fs.readFileSync(file.pieces[0]!)
  const before = new Set(files.pieces())
  await files.put(file.path, randomFile(50_000))
  const [piece] = files.pieces().filter(name => !before.has(name))
  fs.writeFileSync(piece!, old)
  assert.equal(await read(file.path), 'error')
})

test('storage: files swapped between projects fail, even under the same name', async () => {
  const neighbour = await node.createProject()
  const [mine, theirs] = [await stored(100_000), await stored(100_000, neighbour)]
  swap(mine.pieces, theirs.pieces)
  assert.equal(await read(mine.path), 'error')
  assert.equal(await read(theirs.path, undefined, neighbour), 'error')
  swap(mine.pieces, theirs.pieces)
  assert.equal(await read(theirs.path, undefined, neighbour), sha256(theirs.body))
  // A copied piece in another project belongs to no object.
  const planted = join(neighbour.folder, relative(files.folder, mine.pieces[0]!))
  fs.mkdirSync(dirname(planted), { recursive: true })
  fs.copyFileSync(mine.pieces[0]!, planted)
  assert.deepEqual(await neighbour.names(), [theirs.path])
})

test('storage: an image with damage near its end fails with FileDamaged', async () => {
  const before = new Set(files.pieces())
  const headers = { 'content-type': 'image/png' }
  const body = new Uint8Array(randomFile(3 * mebibyte))
  assert.equal((await files.fetch('PUT', 'object/files/image', { headers, body })).status, 200)
  flip(files.pieces().find(name => !before.has(name))!, 2 * mebibyte)
  const reply = await files.fetch('GET', 'render/image/authenticated/files/image')
  assert.equal(((await reply.json()) as { code: string }).code, 'FileDamaged')
})

test('storage: a damaged file can be replaced and removed', async () => {
  const [file, other] = [await stored(100_000), await stored(100_000)]
  flip(file.pieces[0]!, 10)
  fs.rmSync(other.pieces[0]!)
  assert.equal(await read(file.path), 'error')
  await files.put(file.path, file.body)
  assert.equal(await read(file.path), sha256(file.body))
  assert.equal((await files.fetch('DELETE', `object/files/${other.path}`)).status, 200)
  assert.equal(await files.statusOf(other.path), 404)
})
