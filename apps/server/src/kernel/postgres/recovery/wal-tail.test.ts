import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { overheadBytes } from '#src/kernel/objects/frames.ts'
import { type ArchiveStore, tailPiece } from './archive-layout.ts'
import { spoolCipher } from './wal-packer.ts'
import { segmentName } from './wal-position.ts'
import { spoolPath } from './wal-spool.ts'
import { restoreSpool } from './wal-tail.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-tail-'))
after(() => rmSync(root, { recursive: true, force: true }))

const segment = segmentName(1, 5)
const archive = { dataKey: randomBytes(32), systemId: '0123456789abcdef' }
/** Four records of 50 bytes. */
const content = Buffer.concat([0, 1, 2, 3].map(recordOf))

function recordOf(index: number): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(46)
  const plain = randomBytes(46 - overheadBytes)
  return Buffer.concat([
    length,
    ...spoolCipher(archive as ArchiveStore, segment).seal(index, 'tail', [plain]),
  ])
}

interface Part {
  from: number
  to: number
  bytes: Buffer
}

/** Stores parts of the spool, and returns what is restored from them. */
async function restore(parts: readonly Part[]): Promise<{ bytes: Buffer; damaged: string[] }> {
  const directory = mkdtempSync(join(root, 'archive-'))
  const store: ArchiveStore = {
    pieces: await openDirectoryPieces(join(directory, 'pieces'), { isDurable: false }),
    ...archive,
    spoolDir: join(directory, 'spool'),
  }
  for (const { bytes, ...part } of parts) {
    const writer = await store.pieces.write(tailPiece(store.systemId, { segment, ...part }), 0)
    await writer.append([bytes])
    await writer.finish()
  }
  const { made, damaged } = await restoreSpool(store)
  const path = spoolPath(store.spoolDir, segment)
  assert.deepEqual(made, existsSync(path) ? [path] : [])
  return { bytes: made.length > 0 ? readFileSync(path) : Buffer.alloc(0), damaged }
}

async function restored(parts: readonly Part[]): Promise<Buffer> {
  const { bytes, damaged } = await restore(parts)
  assert.deepEqual(damaged, [])
  return bytes
}

const whole = (from: number, to: number) => ({ from, to, bytes: content.subarray(from, to) })

test('WAL tail: pieces are put together', async () => {
  assert.deepEqual(await restored([whole(0, 110), whole(110, 150), whole(150, 200)]), content)
  assert.deepEqual(await restored([whole(0, 100), whole(120, 150)]), content.subarray(0, 100))
})

test('WAL tail: a piece whose write was killed does not hide the complete ones that it was to replace', async () => {
  const older = [whole(0, 100), whole(100, 150)]
  const killed = { from: 0, to: 180, bytes: content.subarray(0, 120) }
  assert.deepEqual(await restored([...older, killed]), content.subarray(0, 150))
  const last = { from: 100, to: 180, bytes: content.subarray(100, 110) }
  assert.deepEqual(await restored([...older, last]), content.subarray(0, 150))
  const most = { from: 0, to: 180, bytes: content.subarray(0, 170) }
  assert.deepEqual(await restored([...older, most]), content.subarray(0, 170))
})

test('WAL tail: after a power loss the size of a piece may be there and its bytes not', async () => {
  const lost = Buffer.concat([content.subarray(0, 50), Buffer.alloc(130)])
  const read = await restored([whole(0, 100), whole(100, 150), { from: 0, to: 180, bytes: lost }])
  assert.deepEqual(read.subarray(0, 150), content.subarray(0, 150))
})

test('WAL tail: a changed byte of a complete piece is reported, and only what is before it is restored', async () => {
  const parts = [whole(0, 110), whole(110, 150), whole(150, 200)]
  const nameOf = ({ from, to }: Part) => tailPiece(archive.systemId, { segment, from, to })
  for (let at = 0; at < content.length; at++) {
    const damaged = parts.map(part => ({ ...part, bytes: Buffer.from(part.bytes) }))
    const hit = damaged.findLast(({ from }) => from <= at)!
    hit.bytes[at - hit.from]! ^= 1
    const found = await restore(damaged)
    const end = at - (at % 50)
    assert.deepEqual(found.bytes, content.subarray(0, end), `byte ${at}`)
    const begins = parts.find(({ from, to }) => from <= end && end < to)!
    assert.deepEqual(found.damaged, [nameOf(begins)], `byte ${at}`)
  }
})
