// Pieces in a directory: its files, and a full disk.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { openPieces } from '#src/kernel/objects/open-pieces.ts'
import { NoSpace } from '#src/kernel/objects/pieces.ts'
import { nameIn, namesOf, pieceEngines, put, read } from './piece-engines.ts'

const { dataDir, engines } = pieceEngines('directory')
const root = join(dataDir, 'objects')

test('directory: files and folders are accessible to their owner only', async () => {
  const name = nameIn(randomUUID())
  await put(engines['directory']!, name, 'x')
  const [folder = '', file = ''] = name.split('/')
  const path = join(root, folder, file.slice(0, 2), file)
  const modes = [path, dirname(path), join(root, folder), root].map(each => fs.statSync(each).mode & 0o777)
  assert.deepEqual(modes, [0o600, 0o700, 0o700, 0o700])
})

test('directory: unrelated files are not listed and cause no errors', async () => {
  const pieces = engines['directory']!
  const folder = randomUUID()
  const name = nameIn(folder)
  await put(pieces, name, 'x')
  fs.writeFileSync(join(root, folder, 'Notes of the operator'), '')
  const file = name.split('/')[1]!
  for (const other of ['.swp', `${file} (copy)`, 'ffff'])
    fs.writeFileSync(join(root, folder, file.slice(0, 2), other), '')
  assert.deepEqual(await namesOf(pieces, folder), [name])
  await pieces.removeFolder(folder)
  assert.ok(!fs.existsSync(join(root, folder)))
})

test('directory: without durability it works the same', async () => {
  const pieces = await openDirectoryPieces(join(dataDir, 'fast'), { isDurable: false })
  const name = nameIn(randomUUID())
  await put(pieces, name, 'x')
  assert.equal((await read(pieces, name)).toString(), 'x')
})

test('directory: the error of a directory that cannot be created names its setting', async () => {
  fs.writeFileSync(join(dataDir, 'file'), '')
  await assert.rejects(openPieces({ dataDir: join(dataDir, 'file'), s3: undefined }), /PLATFORM_DATA_DIR/)
})

test('directory: a write beyond the free space is NoSpace, and finished bytes are kept', () => {
  // A file size limit acts like a full disk and needs no privileges.
  const place = join(dataDir, 'limited')
  const script = `
    import { openDirectoryPieces } from ${JSON.stringify(import.meta.resolve('#src/kernel/objects/filesystem.ts'))}
    process.on('SIGXFSZ', () => {})
    const pieces = await openDirectoryPieces(${JSON.stringify(place)})
    const first = await pieces.write('ab/cd', 0)
    await first.append([Buffer.alloc(10_000, 'a')])
    await first.finish()
    const writer = await pieces.write('ab/cd', 10_000)
    const failure = await writer.append([Buffer.alloc(50_000), Buffer.alloc(90_000)]).catch(error => error)
    await writer.abort()
    console.log(failure.name, failure.cause.code)`
  const child = spawnSync(
    'sh',
    ['-c', 'ulimit -f 40 && exec "$0" --input-type=module -e "$1"', process.execPath, script],
    { encoding: 'utf8', env: {} },
  )
  assert.deepEqual([child.stdout.trim(), child.stderr], ['NoSpace EFBIG', ''])
  const kept = fs.readFileSync(join(place, 'ab/cd/cd')).subarray(0, 10_000)
  assert.ok(kept.equals(Buffer.alloc(10_000, 'a')))
})

// Every write to /dev/full fails as on a full disk. Not every system has it.
for (const device of ['/dev/full'].filter(path => fs.existsSync(path)))
  test('directory: a full disk is NoSpace', async () => {
    const name = nameIn(randomUUID())
    const [folder = '', file = ''] = name.split('/')
    fs.mkdirSync(join(root, folder, file.slice(0, 2)), { recursive: true })
    fs.symlinkSync(device, join(root, folder, file.slice(0, 2), file))
    const writer = await engines['directory']!.write(name, 0)
    await assert.rejects(writer.append([Buffer.from('x')]), NoSpace)
    // The sync fails as well, and the file is closed.
    await assert.rejects(writer.finish(), { code: 'EINVAL' })
    await assert.rejects(writer.append([Buffer.from('x')]), /is closed/)
  })
