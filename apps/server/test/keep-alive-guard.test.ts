// Where webhook deliveries may go (faults-and-attacks 26, 27), with a real DNS server and real TLS.
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import tls from 'node:tls'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { createKeepAlive, type KeepAlive, type KeepAliveOptions } from '#src/kernel/outbound/keep-alive.ts'
import { certificateFor } from './certificate.ts'
import { eventually } from './eventually.ts'
import { type NameServer, startNameServer } from './name-server.ts'
import { createReceivers, drip, type Receiver, reasonOf } from './receivers.ts'

const receivers = createReceivers()
const clients: KeepAlive[] = []
let dns: NameServer
/** Counts its requests in `reached`. */
let inside: Receiver
let reached = 0
const timeoutMs = 120_000

before(async () => {
  dns = await startNameServer()
  inside = await receivers.http((_request, response) => {
    reached++
    response.end('inside')
  })
})
beforeEach(() => {
  reached = 0
  dns.names.clear()
  dns.queried.length = 0
})
after(async () => {
  for (const client of clients) await client.close()
  receivers.close()
  await dns.close()
})

/** 127.0.0.1 and 127.0.0.3 count as public addresses, and other loopback addresses as private ones. */
function createClient(
  options: Partial<KeepAliveOptions> = {},
  allow = ['127.0.0.1', '127.0.0.3'],
): KeepAlive {
  const connector = createConnector({ allow, resolve: name => dns.resolve(name) })
  const client = createKeepAlive(connector, { idleMs: 60_000, sharedLookupMs: 0, ...options })
  clients.push(client)
  return client
}

const literals: [string, string][] = [
  ['http://127.0.0.1', 'blocked'],
  ['http://127.0.0.1.', 'blocked'],
  ['http://127.1', 'blocked'],
  ['http://127.0.1', 'blocked'],
  ['http://0x7f000001', 'blocked'],
  ['http://0x7f.0x0.0x0.0x1', 'blocked'],
  ['http://2130706433', 'blocked'],
  ['http://0177.0.0.1', 'blocked'],
  ['http://017700000001', 'blocked'],
  ['http://127。0。0。1', 'blocked'],
  ['http://①②⑦.0.0.1', 'blocked'],
  ['http://%31%32%37.0.0.1', 'blocked'],
  ['http://localhost', 'blocked'],
  ['http://LOCALHOST.', 'blocked'],
  ['http://any.localhost', 'blocked'],
  ['http://metadata.google.internal', 'blocked'],
  ['http://[::ffff:127.0.0.1]', 'blocked'],
  ['http://[::ffff:7f00:1]', 'blocked'],
  ['http://[0:0:0:0:0:0:0:1]', 'blocked'],
  ['http://[::1]', 'blocked'],
  ['http://[::]', 'blocked'],
  ['http://[fe80::1]', 'blocked'],
  ['http://[fd00::1]', 'blocked'],
  ['http://[64:ff9b::7f00:1]', 'blocked'],
  ['http://[2002:7f00:1::]', 'blocked'],
  ['http://0.0.0.0', 'blocked'],
  ['http://0', 'blocked'],
  ['http://10.0.0.1', 'blocked'],
  ['http://172.16.0.1', 'blocked'],
  ['http://192.168.0.1', 'blocked'],
  ['http://100.64.0.1', 'blocked'],
  ['http://169.254.169.254', 'blocked'],
  ['http://255.255.255.255', 'blocked'],
  ['https://127.0.0.1', 'blocked'],
  ['http://ok@127.0.0.1', 'bad_url'],
  ['http://ok:secret@example.com', 'bad_url'],
  ['http://:secret@example.com', 'bad_url'],
  ['http://[::1%25lo]', 'bad_url'],
  ['http://256.256.256.256', 'bad_url'],
  ['ftp://example.com', 'bad_url'],
  ['file:///etc/passwd', 'bad_url'],
  ['gopher://127.0.0.1', 'bad_url'],
  ['javascript:alert(1)', 'bad_url'],
  ['//127.0.0.1', 'bad_url'],
  ['127.0.0.1', 'bad_url'],
  ['', 'bad_url'],
  ['http://example.com:0/', 'bad_url'],
  ['http://example.com:65536/', 'bad_url'],
  [`http://example.com/${'x'.repeat(8192)}`, 'bad_url'],
]
for (const [url, reason] of literals)
  test(`keep-alive: ${url.slice(0, 40) || 'an empty URL'} is rejected by check and by post`, async () => {
    const client = createClient({}, [])
    const full = /^https?:\/\/[^/]*$/.test(url) ? `${url}:${inside.port}/` : url
    assert.equal(await reasonOf(client.check(full)), reason)
    assert.equal(await reasonOf(client.post({ url: full, body: '', timeoutMs })), reason)
    assert.equal(reached, 0)
    assert.deepEqual(dns.queried, [])
  })

test('keep-alive: check accepts what may be called, and tells names without an address apart', async () => {
  dns.names.set('good.test', [['127.0.0.1']])
  dns.names.set('mixed.test', [['127.0.0.1', '10.0.0.1']])
  const client = createClient()
  await client.check('https://good.test/path')
  assert.equal(await reasonOf(client.check('https://mixed.test/')), 'blocked')
  assert.equal(await reasonOf(client.check('https://nowhere.test/')), 'unresolved')
  assert.equal(
    await reasonOf(client.post({ url: 'http://nowhere.test/', body: '', timeoutMs })),
    'unresolved',
  )
})

test('keep-alive: a rejection names neither the address nor the cause', async () => {
  dns.names.set('inside.test', [['10.1.2.3']])
  const error: Error = await createClient()
    .check('http://inside.test/')
    .then(
      () => assert.fail('accepted'),
      reason => reason,
    )
  assert.doesNotMatch(error.message, /10\.1/)
  assert.match(String((error.cause as Error).message), /10\.1\.2\.3/)
})

test('keep-alive: a kept connection is not used when the name resolves to a private address', async () => {
  dns.names.set('rebind.test', [['127.0.0.1'], ['127.0.0.2']])
  const request = { url: `http://rebind.test:${inside.port}/`, body: '', timeoutMs }
  const client = createClient()
  assert.equal((await client.post(request)).body, 'inside')
  assert.equal(await reasonOf(client.post(request)), 'blocked')
  assert.equal(reached, 1)
})

test('keep-alive: the connection uses the checked address, and the name is resolved once', async () => {
  let reachedPrivate = 0
  const countPrivate = () => reachedPrivate++
  await receivers.http(countPrivate, { host: '127.0.0.2', port: inside.port })
  dns.names.set('once.test', [['127.0.0.1'], ['127.0.0.2']])
  const url = `http://once.test:${inside.port}/`
  assert.equal((await createClient().post({ url, body: '', timeoutMs })).body, 'inside')
  assert.deepEqual(dns.queried, ['once.test'])
  assert.equal(reachedPrivate, 0)
})

test('keep-alive: a kept connection is used only while its address is among the resolved ones', async () => {
  const first = await receivers.http((_request, response) => response.end('first'))
  const second = await receivers.http((_request, response) => response.end('second'), {
    host: '127.0.0.3',
    port: first.port,
  })
  dns.names.set('moving.test', [['127.0.0.1'], ['127.0.0.3'], ['127.0.0.3'], ['127.0.0.1']])
  const client = createClient()
  const bodies: string[] = []
  for (let number = 0; number < 4; number++)
    bodies.push((await client.post({ url: `http://moving.test:${first.port}/`, body: '', timeoutMs })).body)
  assert.deepEqual(bodies, ['first', 'second', 'second', 'first'])
  assert.deepEqual([first.connections.length, second.connections.length], [1, 1])
})

test('keep-alive: a request that waited for a connection resolves the name again', async () => {
  const held: (() => void)[] = []
  const receiver = await receivers.http((_request, response) => held.push(() => response.end('ok')))
  dns.names.set('late.test', [['127.0.0.1'], ['127.0.0.1'], ['127.0.0.2']])
  const client = createClient({ maxPerOrigin: 1 })
  const request = { url: `http://late.test:${receiver.port}/`, body: '', timeoutMs }
  const first = client.post(request)
  await eventually(() => held.length === 1, 'the first request arrives')
  const second = reasonOf(client.post(request))
  await eventually(() => dns.queried.length === 2, 'the second request waits')
  held[0]!()
  await first
  assert.equal(await second, 'blocked')
  assert.equal(held.length, 1)
})

test('keep-alive: a request that is sent again resolves the name again', async () => {
  const receiver = await receivers.http((request, response) => {
    if (request.headers['x-close']) request.socket.destroy()
    else response.end('ok')
  })
  dns.names.set('again.test', [['127.0.0.1'], ['127.0.0.1'], ['127.0.0.2']])
  const client = createClient()
  const request = { url: `http://again.test:${receiver.port}/`, body: '', timeoutMs }
  assert.equal((await client.post(request)).body, 'ok')
  assert.equal(await reasonOf(client.post({ ...request, headers: { 'x-close': '1' } })), 'blocked')
})

test('keep-alive: requests share a lookup', async () => {
  dns.names.set('shared.test', [['127.0.0.1']])
  const client = createClient({ sharedLookupMs: 3_600_000 })
  const request = { url: `http://shared.test:${inside.port}/`, body: '', timeoutMs }
  await Promise.all(Array.from({ length: 20 }, () => client.post(request)))
  await client.post(request)
  assert.deepEqual(dns.queried, ['shared.test'])
})

test('keep-alive: the timeout includes the lookup', async () => {
  const connector = createConnector({ allow: [], resolve: () => new Promise(() => {}) })
  const client = createKeepAlive(connector)
  clients.push(client)
  assert.equal(await reasonOf(client.post({ url: 'http://slow.test/', body: '', timeoutMs: 50 })), 'timeout')
})

/** Trusts the certificates during the work. */
async function trusting<T>(certificates: string[], work: () => Promise<T>): Promise<T> {
  const trusted = tls.getCACertificates('default')
  tls.setDefaultCACertificates([...trusted, ...certificates])
  try {
    return await work()
  } finally {
    tls.setDefaultCACertificates(trusted)
  }
}

test('keep-alive: TLS uses the host name, verifies the certificate, and keeps the connection', async () => {
  const certificate = certificateFor('hook.test')
  const names: unknown[] = []
  const receiver = await receivers.https(certificate, (request, response) => {
    names.push((request.socket as tls.TLSSocket).servername, request.headers.host)
    response.end('over TLS')
  })
  for (const name of ['hook.test', 'other.test']) dns.names.set(name, [['127.0.0.1']])
  const client = createClient()
  const at = (name: string) =>
    client.post({ url: `https://${name}:${receiver.port}/`, body: '{}', timeoutMs })
  assert.equal(await reasonOf(at('hook.test')), 'tls', 'the certificate is not trusted')
  await trusting([certificate.cert], async () => {
    const before = receiver.connections.length
    for (let number = 0; number < 3; number++) assert.equal((await at('hook.test')).body, 'over TLS')
    assert.equal(receiver.connections.length, before + 1)
    assert.equal(await reasonOf(at('other.test')), 'tls')
    assert.equal(await reasonOf(at('127.0.0.1')), 'tls')
  })
  assert.deepEqual([...new Set(names)], ['hook.test', `hook.test:${receiver.port}`])
})

test('keep-alive: the limits apply to answers over TLS', async () => {
  const certificate = certificateFor('large.test')
  const receiver = await receivers.https(certificate, ({ url, socket }, response) => {
    if (url === '/body') response.end(Buffer.alloc(1_000_001))
    // Each record has one byte of the answer, and the bytes of the network count.
    else drip(socket, '\r')
  })
  dns.names.set('large.test', [['127.0.0.1']])
  const client = createClient({ maxReadBytes: 1_100_000 })
  const url = `https://large.test:${receiver.port}`
  await trusting([certificate.cert], async () => {
    assert.equal(await reasonOf(client.post({ url: `${url}/body`, body: '', timeoutMs })), 'answer_too_large')
    const small = createClient({ maxReadBytes: 1000 })
    assert.equal(await reasonOf(small.post({ url: `${url}/drip`, body: '', timeoutMs })), 'answer_too_large')
  })
})

test('keep-alive: a receiver whose TLS handshake is slow, wrong or closed', async () => {
  dns.names.set('hook.test', [['127.0.0.1']])
  const cases: [string, string, (socket: Socket) => void][] = [
    ['slow', 'timeout', () => {}],
    ['slow within a record', 'timeout', socket => socket.write(Buffer.from([22, 3, 3, 0, 80, 2]))],
    ['plain HTTP', 'tls', socket => socket.end('HTTP/1.1 200 OK\r\n\r\n')],
    ['closed', 'tls', socket => socket.end()],
    ['reset', 'tls', socket => socket.resetAndDestroy()],
  ]
  const client = createClient()
  for (const [name, reason, onConnection] of cases) {
    const receiver = await receivers.raw(
      () => {},
      socket => void socket.once('data', () => onConnection(socket)),
    )
    const url = `https://hook.test:${receiver.port}/`
    const limitMs = reason === 'timeout' ? 100 : timeoutMs
    assert.equal(await reasonOf(client.post({ url, body: '', timeoutMs: limitMs })), reason, name)
    await eventually(() => receiver.connections.every(socket => socket.destroyed), 'the connection is closed')
  }
})
