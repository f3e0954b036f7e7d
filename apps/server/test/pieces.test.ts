// Operations on pieces, which have the same results in a directory and in S3.
import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { test } from 'node:test'
import { MissingPiece, type Pieces } from '#src/kernel/objects/pieces.ts'
import { eventually } from './eventually.ts'
import { nameIn, namesOf, pieceEngines, put, read } from './piece-engines.ts'

const { engines } = pieceEngines('directory', 'S3')

/** Declares the test for both engines, each with its own folder. */
function onBoth(what: string, work: (pieces: Pieces, folder: string) => Promise<void>): void {
  for (const engine of ['directory', 'S3'])
    test(`${engine}: ${what}`, () => work(engines[engine]!, randomUUID()))
}

const openFiles = () => fs.readdirSync('/dev/fd').length

// This test is first, because idle connections of other tests would hide leaked ones.
onBoth('reads and writes leave no open files, even if aborted', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, randomBytes(300_000))
  const use = async () => {
    await read(pieces, name)
    const half = await pieces.open(name, 0, 300_000)
    await half.fill(Buffer.alloc(1000))
    await half.close()
    await half.close()
    await assert.rejects(half.fill(Buffer.alloc(1)), /closed/)
    const writer = await pieces.write(nameIn(folder), 0)
    await writer.append([Buffer.from('x')])
    await writer.abort()
    await assert.rejects(pieces.open(nameIn(folder), 0, 1), MissingPiece)
    await assert.rejects(pieces.write(name, 300_001), /cannot continue/)
  }
  await use()
  const open = openFiles()
  for (let n = 0; n < 30; n++) await use()
  await eventually(() => openFiles() <= open + 2, `${openFiles()} open after ${open}`)
})

onBoth('a copy has the same bytes and stays when the original is removed', async (pieces, folder) => {
  const [name, copy] = [nameIn(folder), nameIn(randomUUID())]
  const bytes = randomBytes(300_000)
  await put(pieces, name, bytes)
  await pieces.copy(name, copy)
  // A repeated copy, as after a crash, changes nothing.
  await pieces.copy(name, copy)
  await pieces.remove([name])
  assert.ok(bytes.equals(await read(pieces, copy)))
  await assert.rejects(pieces.copy(name, nameIn(folder)), MissingPiece)
})

onBoth('appended bytes can be read at once or in parts', async (pieces, folder) => {
  const name = nameIn(folder)
  const bytes = randomBytes(8 * 2 ** 20 + 3584)
  const writer = await pieces.write(name, 0)
  for (let at = 0; at < bytes.length; at += 700_000)
    await writer.append([bytes.subarray(at, at + 300_000), bytes.subarray(at + 300_000, at + 700_000)])
  await writer.finish()
  assert.ok(bytes.equals(await read(pieces, name)))

  const reader = await pieces.open(name, 0, bytes.length)
  assert.equal(reader.size, bytes.length)
  const parts: Buffer[] = []
  for (let filled = -1; filled !== 0; ) {
    const buffer = Buffer.alloc(65_564)
    filled = await reader.fill(buffer)
    parts.push(buffer.subarray(0, filled))
  }
  await reader.close()
  assert.ok(
    parts.slice(0, -2).every(part => part.length === 65_564),
    'all buffers but the last are full',
  )
  assert.ok(bytes.equals(Buffer.concat(parts)))
})

onBoth('thousands of small buffers can be appended to one piece', async (pieces, folder) => {
  const name = nameIn(folder)
  const chunks = Array.from({ length: 5000 }, (_, n) => Buffer.from(`${n};`))
  const writer = await pieces.write(name, 0)
  await writer.append([])
  await writer.append(chunks)
  await writer.finish()
  assert.equal((await read(pieces, name)).toString(), chunks.join(''))
})

onBoth('a buffer can be reused after append', async (pieces, folder) => {
  const name = nameIn(folder)
  const buffer = Buffer.from('first')
  const writer = await pieces.write(name, 0)
  await writer.append([buffer])
  buffer.write('again')
  await writer.append([buffer])
  buffer.fill(0)
  await writer.finish()
  assert.equal((await read(pieces, name)).toString(), 'firstagain')
})

onBoth('a read returns exactly the requested range', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, '0123456789')
  const of = async (from: number, to: number) => (await read(pieces, name, from, to)).toString()
  assert.equal(await of(0, 1), '0')
  assert.equal(await of(3, 7), '3456')
  assert.equal(await of(9, 10), '9')
  assert.equal(await of(8, 500), '89')
  assert.equal(await of(5, 5), '')
  assert.equal(await of(10, 20), '')
  const behind = await pieces.open(name, 50, 60)
  assert.deepEqual([behind.size, await behind.fill(Buffer.alloc(5))], [10, 0])
  await behind.close()
})

onBoth('an empty piece exists and is listed', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name)
  assert.equal((await read(pieces, name)).length, 0)
  assert.deepEqual(await namesOf(pieces, folder), [name])
})

onBoth('a write continues at the given offset and truncates the rest', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, 'one two')
  for (const [at, text] of [
    [7, ' three'],
    [4, 'and more'],
  ] as const) {
    const writer = await pieces.write(name, at)
    await writer.append([Buffer.from(text)])
    await writer.finish()
  }
  assert.equal((await read(pieces, name)).toString(), 'one and more')
  const shorter = await pieces.write(name, 3)
  await shorter.finish()
  assert.equal((await read(pieces, name)).toString(), 'one')
})

onBoth('a write past the end or to a missing piece is an error', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, 'short')
  await assert.rejects(pieces.write(name, 6), /has 5 bytes, cannot continue after 6/)
  assert.equal((await read(pieces, name)).toString(), 'short')
  await assert.rejects(pieces.write(nameIn(folder), 1), MissingPiece)
})

onBoth('an aborted write does not change finished bytes', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, 'promised')
  const abandoned = await pieces.write(name, 8)
  await abandoned.append([Buffer.from(' and lost, which was much longer')])
  const again = await pieces.write(name, 8)
  await again.append([Buffer.from(' kept')])
  await again.finish()
  assert.equal((await read(pieces, name)).toString(), 'promised kept')
  await abandoned.abort()
  await abandoned.abort()
  assert.equal((await read(pieces, name)).toString(), 'promised kept')
  await again.abort()
  assert.equal((await read(pieces, name)).toString(), 'promised kept')
  await assert.rejects(again.append([Buffer.from('x')]), /is closed/)
  await assert.rejects(again.finish(), /is closed/)
})

onBoth('a write at offset 0 replaces the piece', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, 'the longer of the two')
  await put(pieces, name, 'short')
  assert.equal((await read(pieces, name)).toString(), 'short')
})

onBoth('opening a missing or removed piece is MissingPiece', async (pieces, folder) => {
  const name = nameIn(folder)
  await assert.rejects(pieces.open(name, 0, 1), MissingPiece)
  await assert.rejects(pieces.open(name, 0, 0), MissingPiece)
  await put(pieces, name, 'x')
  await pieces.remove([name])
  await assert.rejects(pieces.open(name, 0, 1), MissingPiece)
})

onBoth('remove deletes the given pieces and ignores missing ones', async (pieces, folder) => {
  const names = Array.from({ length: 30 }, (_, n) => nameIn(folder, n))
  await Promise.all(names.map(name => put(pieces, name, name)))
  await pieces.remove([...names.slice(0, 20), nameIn(folder), nameIn(randomUUID())])
  assert.deepEqual(await namesOf(pieces, folder), names.slice(20).sort())
  await pieces.remove(names.slice(0, 20))
  await pieces.remove([])
})

onBoth('a list has names and modification times', async (pieces, folder) => {
  assert.deepEqual(await namesOf(pieces, folder), [])
  const [first, second] = [nameIn(folder), `${folder}/${randomBytes(32).toString('hex')}`]
  // S3 reports whole seconds.
  const start = Date.now() - 1000
  await put(pieces, first, 'a')
  await put(pieces, second, 'b')
  assert.deepEqual(await namesOf(pieces, folder), [first, second].sort())
  for await (const { name, modifiedAt } of pieces.list(folder))
    assert.ok(+modifiedAt >= start && +modifiedAt <= Date.now() + 1000, `${name}: ${modifiedAt}`)
})

onBoth(
  'a folder with more than a thousand pieces is listed and removed completely, and no other',
  async (pieces, folder) => {
    const names = Array.from({ length: 1010 }, (_, n) => nameIn(folder, n))
    const neighbours = [nameIn(folder.slice(0, -1)), nameIn(`${folder}0`)]
    let next = 0
    const inTurn = async () => {
      while (next < names.length) await put(pieces, names[next++]!, 'x')
    }
    await Promise.all(Array.from({ length: 20 }, inTurn))
    for (const name of neighbours) await put(pieces, name, 'y')
    assert.deepEqual(await namesOf(pieces, folder), names.toSorted())
    await pieces.removeFolder(folder)
    await pieces.removeFolder(folder)
    assert.deepEqual(await namesOf(pieces, folder), [])
    for (const name of neighbours) assert.equal((await read(pieces, name)).toString(), 'y')
    await put(pieces, names[0]!, 'back')
    assert.deepEqual(await namesOf(pieces, folder), [names[0]])
  },
)

onBoth('concurrent writes and reads do not mix pieces', async (pieces, folder) => {
  const contents = new Map(Array.from({ length: 60 }, (_, n) => [nameIn(folder, n), randomBytes(20_000 + n)]))
  const checked = [...contents].map(async ([name, bytes]) => {
    await put(pieces, name, bytes.subarray(0, 5000), bytes.subarray(5000))
    assert.ok(bytes.equals(await read(pieces, name)), name)
  })
  await Promise.all(checked)
})

const badNames = [
  '',
  'a',
  'a/',
  '/etc/passwd',
  '../0123',
  'ab/../../etc/passwd',
  'ab/..',
  'ab/.hidden',
  'ab/01/23',
  'ab/01\\23',
  'ab/01\0',
  'ab/0123\n',
  'AB/0123',
  'ab/names of callers',
  'ab/%2e%2e',
  `ab/${'0'.repeat(200)}`,
]
onBoth('an invalid name is rejected by every operation', async pieces => {
  for (const name of badNames) {
    await assert.rejects(pieces.write(name, 0), TypeError, name)
    await assert.rejects(pieces.open(name, 0, 1), TypeError, name)
    await assert.rejects(pieces.remove([name]), TypeError, name)
  }
  for (const folder of ['', '.', '..', 'a/b', '../a', 'folder', 'ab\0', 'ab\n']) {
    await assert.rejects(pieces.removeFolder(folder), TypeError, folder)
    await assert.rejects(namesOf(pieces, folder), TypeError, folder)
  }
})

onBoth('closing a reader ends its pending read and does not affect others', async (pieces, folder) => {
  const name = nameIn(folder)
  const bytes = randomBytes(2 ** 20)
  await put(pieces, name, bytes)
  for (let n = 0; n < 20; n++) {
    const reader = await pieces.open(name, 0, bytes.length)
    const filled = reader.fill(Buffer.alloc(bytes.length)).catch(() => 0)
    await reader.close()
    await filled
  }
  assert.ok(bytes.equals(await read(pieces, name)))
})
