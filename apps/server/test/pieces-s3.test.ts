// Pieces in S3: interrupted connections, and a service that cannot be reached or used.
import assert from 'node:assert/strict'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { connect, createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { ObjectsUnavailable } from '#src/kernel/objects/pieces.ts'
import { openS3Pieces } from '#src/kernel/objects/s3.ts'
import { nameIn, namesOf, pieceEngines, put, read } from './piece-engines.ts'

const { engines, s3 } = pieceEngines('S3')

/** A proxy before the S3 service that cuts `cutsLeft` connections after `cutAfter` bytes of answers. */
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

test('S3: an unfinished piece is not in the bucket', async () => {
  const folder = randomUUID()
  const writer = await engines['S3']!.write(nameIn(folder), 0)
  await writer.append([randomBytes(5 * 2 ** 20)])
  assert.deepEqual(await namesOf(engines['S3']!, folder), [])
  await writer.finish()
  assert.equal((await namesOf(engines['S3']!, folder)).length, 1)
})

test('S3: an interrupted read resumes at the same position', async () => {
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

test('S3: consecutive reads share a connection', async () => {
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

test('S3: a delete has the digest that older services require', async () => {
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

test('S3: an unreachable service is ObjectsUnavailable, not a missing piece', async () => {
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

test('S3: an unusable bucket is a one-line error with its settings and without the secret', async () => {
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
