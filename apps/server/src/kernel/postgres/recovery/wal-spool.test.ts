import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { frameCipher } from '#src/kernel/objects/frames.ts'
import {
  beginSpool,
  cutSpool,
  openSpool,
  readSpool,
  removeUnbegun,
  type SpoolEnd,
  spooledSegments,
  spoolPath,
} from './wal-spool.ts'

const directory = mkdtempSync(join(tmpdir(), 'plinth-spool-'))
after(() => rmSync(directory, { recursive: true, force: true }))

const cipher = frameCipher(randomBytes(32), 'segment')

const begin = (path: string) => beginSpool(path, cipher, async () => {})

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
  const first = await begin(path)
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
  const spool = await begin(path)
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

test('WAL spool: a segment exists once its first record is durable, and what a killed process has left is no segment', async () => {
  const own = mkdtempSync(join(directory, 'begun-'))
  const segment = '000000010000000000000003'
  const path = spoolPath(own, segment)
  const killed = await begin(path)
  assert.deepEqual(await spooledSegments(own), [])
  await killed.append([Buffer.from('first')])
  await killed.close()
  assert.deepEqual(await spooledSegments(own), [segment])
  // The size without the bytes, as after a power loss, under the name that it has until then.
  const torn = readFileSync(path).fill(0, 10)
  rmSync(path)
  writeFileSync(`${path}.new`, torn)
  assert.deepEqual(await spooledSegments(own), [])
  const order: string[] = []
  const again = await beginSpool(path, cipher, async () => {
    order.push(`synced ${readdirSync(own)}`)
  })
  await again.append([Buffer.from('second ')])
  await again.append([Buffer.from('third')])
  await again.close()
  assert.deepEqual(order, [`synced ${segment}.partial`])
  assert.equal((await read(path)).text, 'second third')
  writeFileSync(`${path}.new`, torn)
  await removeUnbegun(own)
  assert.deepEqual(readdirSync(own), [`${segment}.partial`])
  await removeUnbegun(join(own, 'missing'))
})
