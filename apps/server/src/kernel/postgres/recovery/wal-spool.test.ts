import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { frameCipher } from '#src/kernel/objects/frames.ts'
import { cutSpool, openSpool, readSpool, type SpoolEnd } from './wal-spool.ts'

const directory = mkdtempSync(join(tmpdir(), 'plinth-spool-'))
after(() => rmSync(directory, { recursive: true, force: true }))

const cipher = frameCipher(randomBytes(32), 'segment')

async function read(path: string): Promise<{ text: string; end: SpoolEnd }> {
  const reading = readSpool(path, cipher)
  let text = ''
  for (;;) {
    const { done, value } = await reading.next()
    if (done) return { text, end: value }
    text += value
  }
}

test('WAL spool: a writer continues after the last complete record', async () => {
  const path = join(directory, 'continued')
  const first = await openSpool(path, cipher)
  for (const text of ['one ', 'two ', 'three ']) await first.append([Buffer.from(text)])
  await first.close()
  truncateSync(path, readFileSync(path).length - 1)
  appendFileSync(path, 'rest of another write')
  const { text, end } = await read(path)
  assert.deepEqual([text, end.bytes, end.records], ['one two ', 8, 2])
  await cutSpool(path, end)
  const second = await openSpool(path, cipher, end)
  await second.append([Buffer.from('thr'), Buffer.from('ee')])
  await second.close()
  assert.equal(second.bytes, 13)
  assert.equal((await read(path)).text, 'one two three')
})

test('WAL spool: the content is encrypted, a changed or moved record ends it, and without the first one it cannot be read', async () => {
  const path = join(directory, 'changed')
  const spool = await openSpool(path, cipher)
  for (const text of ['secret 1', 'secret 2']) await spool.append([Buffer.from(text)])
  await spool.close()
  const stored = readFileSync(path)
  assert.ok(!stored.includes('secret'))
  const half = stored.length / 2
  writeFileSync(path, Buffer.concat([stored.subarray(half), stored.subarray(0, half)]))
  await assert.rejects(read(path), { name: 'UnreadableSpool', message: /CONTROL_PLANE_SECRET/ })
  stored[stored.length - 20]! ^= 1
  writeFileSync(path, stored)
  assert.equal((await read(path)).text, 'secret 1')
})
