// Where bytes are kept, as both engines do it: a real directory, and a real S3 service over HTTP.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import fs from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDirectoryPieces } from '#src/kernel/objects/filesystem.ts'
import { openPieces } from '#src/kernel/objects/open-pieces.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable, type Pieces } from '#src/kernel/objects/pieces.ts'
import { openS3Pieces } from '#src/kernel/objects/s3.ts'
import { type S3Server, startS3 } from './s3-server.ts'

const dataDir = fs.mkdtempSync(join(tmpdir(), 'plinth-pieces-'))
const root = join(dataDir, 'objects')
let s3: S3Server
const engines: Record<string, Pieces> = {}

before(async () => {
  s3 = await startS3()
  engines['directory'] = await openPieces({ dataDir, s3: undefined })
  engines['S3'] = await openPieces({ dataDir, s3: s3.settings })
})

after(async () => {
  for (const pieces of Object.values(engines)) await pieces.close()
  await s3.stop()
  fs.rmSync(dataDir, { recursive: true, force: true })
})

/** The same of both, each in a folder of its own. */
function onBoth(what: string, work: (pieces: Pieces, folder: string) => Promise<void>): void {
  for (const engine of ['directory', 'S3'])
    test(`${engine}: ${what}`, () => work(engines[engine]!, randomUUID()))
}

const nameIn = (folder: string, n = 0) => `${folder}/${randomUUID()}.${n}`

async function put(pieces: Pieces, name: string, ...chunks: (Buffer | string)[]): Promise<void> {
  const writer = await pieces.write(name, 0)
  await writer.append(chunks.map(chunk => Buffer.from(chunk)))
  await writer.finish()
}

async function read(pieces: Pieces, name: string, from = 0, to = Number.POSITIVE_INFINITY): Promise<Buffer> {
  const reader = await pieces.open(name, from, to)
  try {
    const buffer = Buffer.alloc(Math.max(0, Math.min(to, reader.size) - from) + 10)
    return buffer.subarray(0, await reader.fill(buffer))
  } finally {
    await reader.close()
  }
}

async function namesOf(pieces: Pieces, folder: string): Promise<string[]> {
  const names: string[] = []
  for await (const { name } of pieces.list(folder)) names.push(name)
  return names.sort()
}

const until = async (holds: () => boolean, what: string) => {
  for (const end = Date.now() + 60_000; !holds(); await sleep(10)) assert.ok(Date.now() < end, what)
}
const openFiles = () => fs.readdirSync('/dev/fd').length

// First: connections that other tests leave to time out would hide those that stay.
onBoth('nothing stays open behind reads and writes, also those given up', async (pieces, folder) => {
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
    await assert.rejects(pieces.write(name, 300_001), /holds/)
  }
  await use()
  const open = openFiles()
  for (let n = 0; n < 30; n++) await use()
  await until(() => openFiles() <= open + 2, `${openFiles()} open after ${open}`)
})

onBoth('what was appended is read back, in one go or in parts', async (pieces, folder) => {
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
    'all but the last are full',
  )
  assert.ok(bytes.equals(Buffer.concat(parts)))
})

onBoth('thousands of small buffers make one piece', async (pieces, folder) => {
  const name = nameIn(folder)
  const chunks = Array.from({ length: 5000 }, (_, n) => Buffer.from(`${n};`))
  const writer = await pieces.write(name, 0)
  await writer.append([])
  await writer.append(chunks)
  await writer.finish()
  assert.equal((await read(pieces, name)).toString(), chunks.join(''))
})

onBoth('a buffer may be used again once it was appended', async (pieces, folder) => {
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

onBoth('a range is read, and no byte more', async (pieces, folder) => {
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

onBoth('an empty piece is a piece', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name)
  assert.equal((await read(pieces, name)).length, 0)
  assert.deepEqual(await namesOf(pieces, folder), [name])
})

onBoth('a piece goes on from where it is told to', async (pieces, folder) => {
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

onBoth('going on past the end, or with a piece that is not there, is an error', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, 'short')
  await assert.rejects(pieces.write(name, 6), /holds 5 bytes, not the 6/)
  assert.equal((await read(pieces, name)).toString(), 'short')
  await assert.rejects(pieces.write(nameIn(folder), 1), MissingPiece)
})

onBoth('an attempt given up leaves what was promised before it', async (pieces, folder) => {
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
  await assert.rejects(again.append([Buffer.from('x')]), /no more/)
  await assert.rejects(again.finish(), /no more/)
})

onBoth('writing from the start replaces what was there', async (pieces, folder) => {
  const name = nameIn(folder)
  await put(pieces, name, 'the longer of the two')
  await put(pieces, name, 'short')
  assert.equal((await read(pieces, name)).toString(), 'short')
})

onBoth('a piece that is not there is missing, before and after its removal', async (pieces, folder) => {
  const name = nameIn(folder)
  await assert.rejects(pieces.open(name, 0, 1), MissingPiece)
  await assert.rejects(pieces.open(name, 0, 0), MissingPiece)
  await put(pieces, name, 'x')
  await pieces.remove([name])
  await assert.rejects(pieces.open(name, 0, 1), MissingPiece)
})

onBoth('removing takes away those named, and minds none that is not there', async (pieces, folder) => {
  const names = Array.from({ length: 30 }, (_, n) => nameIn(folder, n))
  await Promise.all(names.map(name => put(pieces, name, name)))
  await pieces.remove([...names.slice(0, 20), nameIn(folder), nameIn(randomUUID())])
  assert.deepEqual(await namesOf(pieces, folder), names.slice(20).sort())
  await pieces.remove(names.slice(0, 20))
  await pieces.remove([])
})

onBoth('a list tells names and when they were written', async (pieces, folder) => {
  assert.deepEqual(await namesOf(pieces, folder), [])
  const [first, second] = [nameIn(folder), `${folder}/${randomBytes(32).toString('hex')}`]
  // S3 tells whole seconds.
  const start = Date.now() - 1000
  await put(pieces, first, 'a')
  await put(pieces, second, 'b')
  assert.deepEqual(await namesOf(pieces, folder), [first, second].sort())
  for await (const { name, modifiedAt } of pieces.list(folder))
    assert.ok(+modifiedAt >= start && +modifiedAt <= Date.now() + 1000, `${name}: ${modifiedAt}`)
})

onBoth(
  'a folder of more than a thousand is listed and removed whole, and no other',
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

onBoth('many are written and read at once, each its own', async (pieces, folder) => {
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
onBoth('a name that the platform would not make goes nowhere', async pieces => {
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

onBoth('a read that is closed in the middle ends, and harms no other', async (pieces, folder) => {
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

// The directory

test('files and folders of the directory are for their owner alone', async () => {
  const name = nameIn(randomUUID())
  await put(engines['directory']!, name, 'x')
  const [folder = '', file = ''] = name.split('/')
  const path = join(root, folder, file.slice(0, 2), file)
  const modes = [path, dirname(path), join(root, folder), root].map(each => fs.statSync(each).mode & 0o777)
  assert.deepEqual(modes, [0o600, 0o700, 0o700, 0o700])
})

test('files of others in the directory are neither listed nor in the way', async () => {
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

test('without durability the directory works the same', async () => {
  const pieces = await openDirectoryPieces(join(dataDir, 'fast'), { isDurable: false })
  const name = nameIn(randomUUID())
  await put(pieces, name, 'x')
  assert.equal((await read(pieces, name)).toString(), 'x')
})

test('a directory that cannot be made is told by the setting it comes from', async () => {
  fs.writeFileSync(join(dataDir, 'file'), '')
  await assert.rejects(openPieces({ dataDir: join(dataDir, 'file'), s3: undefined }), /PLATFORM_DATA_DIR/)
})

test('a write past the space that is left is NoSpace, and what was promised before stays', () => {
  // A limit on the size of files: the one kind of full disk that anyone may have.
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

// Every write to it fails as on a full disk; not every system has one.
for (const device of ['/dev/full'].filter(path => fs.existsSync(path)))
  test('a full disk is NoSpace', async () => {
    const name = nameIn(randomUUID())
    const [folder = '', file = ''] = name.split('/')
    fs.mkdirSync(join(root, folder, file.slice(0, 2)), { recursive: true })
    fs.symlinkSync(device, join(root, folder, file.slice(0, 2), file))
    const writer = await engines['directory']!.write(name, 0)
    await assert.rejects(writer.append([Buffer.from('x')]), NoSpace)
    // Nor can it be synced; the file is closed all the same.
    await assert.rejects(writer.finish(), { code: 'EINVAL' })
    await assert.rejects(writer.append([Buffer.from('x')]), /no more/)
  })

// S3

/** Between the platform and the service; after so many bytes of answers a connection is cut, so often. */
async function startProxy(cutAfter = 0, cutsLeft = 0) {
  const { port } = new URL(s3.settings.endpoint!)
  const sockets = new Set<Socket>()
  const proxy = { endpoint: '', connections: 0, cutAfter, cutsLeft, sent: '', stop: () => {} }
  const server = createServer(client => {
    proxy.connections++
    const upstream = connect(Number(port), '127.0.0.1')
    let passed = 0
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
    }
    client.on('close', () => upstream.destroy()).pipe(upstream)
    client.on('data', data => (proxy.sent += data.toString('latin1')))
    upstream.on('close', () => client.destroy())
    upstream.on('data', data => {
      passed += data.length
      if (passed > proxy.cutAfter && proxy.cutsLeft > 0) {
        proxy.cutsLeft--
        upstream.pause()
        client.end(data.subarray(0, data.indexOf('\r\n\r\n') + 4))
      } else client.write(data)
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  proxy.endpoint = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  proxy.stop = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  return proxy
}

test('nothing of a piece is in S3 before it is finished', async () => {
  const folder = randomUUID()
  const writer = await engines['S3']!.write(nameIn(folder), 0)
  await writer.append([randomBytes(5 * 2 ** 20)])
  assert.deepEqual(await namesOf(engines['S3']!, folder), [])
  await writer.finish()
  assert.equal((await namesOf(engines['S3']!, folder)).length, 1)
})

test('a read from S3 that is cut goes on where it stopped', async () => {
  const name = nameIn(randomUUID())
  const bytes = randomBytes(4 * 2 ** 20)
  await put(engines['S3']!, name, bytes)
  const proxy = await startProxy(500_000, 2)
  const pieces = await openS3Pieces({ ...s3.settings, endpoint: proxy.endpoint })
  try {
    assert.ok(bytes.subarray(1000).equals(await read(pieces, name, 1000)))
    assert.deepEqual([proxy.cutsLeft, proxy.connections], [0, 3])
    Object.assign(proxy, { cutAfter: 0, cutsLeft: 1000 })
    const reader = await pieces.open(name, 0, bytes.length)
    await assert.rejects(reader.fill(Buffer.alloc(10)), ObjectsUnavailable)
    await reader.close()
    assert.equal(proxy.cutsLeft, 997)
  } finally {
    await pieces.close()
    proxy.stop()
  }
})

test('reads from S3 one after the other share a connection', async () => {
  const name = nameIn(randomUUID())
  await put(engines['S3']!, name, randomBytes(200_000))
  const proxy = await startProxy()
  const pieces = await openS3Pieces({ ...s3.settings, endpoint: proxy.endpoint })
  try {
    for (let n = 0; n < 20; n++) await read(pieces, name, n, 150_000)
    assert.ok(proxy.connections <= 2, `${proxy.connections} connections`)
  } finally {
    await pieces.close()
    proxy.stop()
  }
})

test('removing from S3 carries the digest that older services ask for', async () => {
  const proxy = await startProxy()
  const pieces = await openS3Pieces({ ...s3.settings, endpoint: proxy.endpoint })
  try {
    await pieces.remove([nameIn(randomUUID()), nameIn(randomUUID())])
    const [head = '', body = ''] = proxy.sent.slice(proxy.sent.indexOf('POST ')).split('\r\n\r\n')
    const digest = createHash('md5').update(body).digest('base64')
    assert.equal(/^content-md5: (.*)\r$/im.exec(head)?.[1], digest)
  } finally {
    await pieces.close()
    proxy.stop()
  }
})

test('an S3 service that has gone is ObjectsUnavailable, and no piece is missing', async () => {
  const name = nameIn(randomUUID())
  await put(engines['S3']!, name, 'x')
  const proxy = await startProxy()
  const pieces = await openS3Pieces({ ...s3.settings, endpoint: proxy.endpoint })
  proxy.stop()
  await assert.rejects(pieces.open(name, 0, 1), ObjectsUnavailable)
  await assert.rejects(put(pieces, name, 'y'), ObjectsUnavailable)
  await assert.rejects(pieces.remove([name]), ObjectsUnavailable)
  await assert.rejects(namesOf(pieces, 'ab'), ObjectsUnavailable)
  await pieces.close()
})

test('an S3 bucket that cannot be used is one sentence with its settings, without the secret', async () => {
  const secretAccessKey = 'hunter2hunter2'
  const wrong = {
    NoSuchBucket: { bucket: 'nowhere' },
    InvalidAccessKeyId: { accessKeyId: 'nobody' },
    ECONNREFUSED: { endpoint: 'http://127.0.0.1:1' },
    'ENOTFOUND|EAI_AGAIN': { endpoint: 'http://nowhere.invalid' },
  }
  for (const [reason, over] of Object.entries(wrong)) {
    const error = await openS3Pieces({ ...s3.settings, secretAccessKey, ...over }).then(
      () => assert.fail(reason),
      (failure: Error) => failure,
    )
    assert.match(
      error.message,
      new RegExp(`^S3_BUCKET .* S3_ENDPOINT http.* cannot be used: (${reason})\\.$`),
    )
    assert.ok(!error.message.includes(secretAccessKey))
  }
})
