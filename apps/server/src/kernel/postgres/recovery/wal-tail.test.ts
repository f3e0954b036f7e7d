import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { type ArchiveStore, tailPiece } from './archive-layout.ts'
import { segmentName } from './wal-position.ts'
import { spoolPath } from './wal-spool.ts'
import { restoreSpool } from './wal-tail.ts'

const root = mkdtempSync(join(tmpdir(), 'plinth-tail-'))
after(() => rmSync(root, { recursive: true, force: true }))

const segment = segmentName(1, 5)
const content = randomBytes(200)

/** Stores parts of the spool, and returns what is restored from them. */
async function restored(parts: { from: number; to: number; bytes: Buffer }[]): Promise<Buffer> {
  const directory = mkdtempSync(join(root, 'archive-'))
  const store: ArchiveStore = {
    pieces: await openDirectoryPieces(join(directory, 'pieces'), { isDurable: false }),
    dataKey: randomBytes(32),
    systemId: '0123456789abcdef',
    spoolDir: join(directory, 'spool'),
  }
  for (const { bytes, ...part } of parts) {
    const writer = await store.pieces.write(tailPiece(store.systemId, { segment, ...part }), 0)
    await writer.append([bytes])
    await writer.finish()
  }
  await restoreSpool(store)
  return readFileSync(spoolPath(store.spoolDir, segment))
}

const whole = (from: number, to: number) => ({ from, to, bytes: content.subarray(from, to) })

test('WAL tail: pieces are put together', async () => {
  assert.deepEqual(
    await restored([whole(0, 100), whole(100, 150), whole(150, 160)]),
    content.subarray(0, 160),
  )
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
