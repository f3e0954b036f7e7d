// Outbound requests to URLs of projects, with real servers, a real DNS server and real TLS (faults-and-attacks 26, 27).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http, { createServer, type RequestListener, type Server } from 'node:http'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import tls from 'node:tls'
import { gzipSync } from 'node:zlib'
import { createConnector, OutboundError } from '#src/kernel/outbound/connect.ts'
import { createOutbound, type OutboundRequest } from '#src/kernel/outbound/fetch.ts'
import { certificateFor } from './certificate.ts'
import { type NameServer, startNameServer } from './name-server.ts'

const servers: Server[] = []
let dns: NameServer
/** Counts its requests in `reached`. */
let inside: Server
let reached = 0
const port = (server: Server) => (server.address() as AddressInfo).port

async function listening<T extends Server>(server: T, host = '127.0.0.1', at = 0): Promise<T> {
  servers.push(server)
  server.listen(at, host)
  await once(server, 'listening')
  return server
}
const serve = async (listener: RequestListener, host?: string, at?: number) =>
  listening(createServer(listener), host, at)

before(async () => {
  dns = await startNameServer()
  inside = await serve((_request, response) => {
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
  for (const server of servers) {
    server.closeAllConnections()
    server.close()
  }
  await dns.close()
})

/** Here 127.0.0.1 counts as a public address, and other loopback addresses as private ones. */
const outbound = () =>
  createOutbound(createConnector({ allow: ['127.0.0.1'], resolve: name => dns.resolve(name) }))
const withoutExceptions = () => createOutbound(createConnector({ allow: [] }))

const reasonOf = (work: Promise<unknown>) =>
  work.then(
    () => 'answered',
    error => {
      assert.ok(error instanceof OutboundError, String(error))
      return error.reason
    },
  )
const fetchReason = (request: OutboundRequest) => reasonOf(outbound().fetch(request))

test('outbound: an answer has status, headers and body', async () => {
  const server = await serve((request, response) => {
    response.writeHead(418, { 'content-type': 'text/plain', 'x-method': request.method })
    request.pipe(response)
  })
  const url = `http://127.0.0.1:${port(server)}/a?b=c`
  const answer = await outbound().fetch({ url, body: 'grüße', headers: { 'content-type': 'text/plain' } })
  assert.equal(answer.status, 418)
  assert.equal(answer.headers['x-method'], 'POST')
  assert.equal(answer.body.toString(), 'grüße')
  assert.equal((await outbound().fetch({ url })).headers['x-method'], 'GET')
})

const literals: [string, string][] = [
  ['http://127.0.0.1', 'address_not_allowed'],
  ['http://127.1', 'address_not_allowed'],
  ['http://0x7f000001', 'address_not_allowed'],
  ['http://2130706433', 'address_not_allowed'],
  ['http://0177.0.0.1', 'address_not_allowed'],
  ['http://127。0。0。1', 'address_not_allowed'],
  ['http://①②⑦.0.0.1', 'address_not_allowed'],
  ['http://localhost', 'address_not_allowed'],
  ['http://[::ffff:127.0.0.1]', 'address_not_allowed'],
  ['http://[::ffff:7f00:1]', 'address_not_allowed'],
  ['http://[::1]', 'address_not_allowed'],
  ['http://[::]', 'address_not_allowed'],
  ['http://0.0.0.0', 'address_not_allowed'],
  ['http://0', 'address_not_allowed'],
  ['http://100.64.0.1', 'address_not_allowed'],
  ['http://169.254.169.254', 'address_not_allowed'],
  ['http://[64:ff9b::7f00:1]', 'address_not_allowed'],
  ['http://ok@127.0.0.1', 'bad_url'],
  ['http://ok:secret@example.com', 'bad_url'],
  ['ftp://example.com', 'bad_url'],
  ['file:///etc/passwd', 'bad_url'],
  ['gopher://127.0.0.1', 'bad_url'],
  ['//127.0.0.1', 'bad_url'],
  ['', 'bad_url'],
]
for (const [url, reason] of literals)
  test(`outbound: ${url || 'an empty URL'} is rejected by check and by fetch`, async () => {
    const full = /^http:/.test(url) ? `${url}:${port(inside)}/` : url
    assert.equal(await reasonOf(withoutExceptions().check(full)), reason)
    assert.equal(await reasonOf(withoutExceptions().fetch({ url: full })), reason)
    assert.equal(reached, 0)
  })

test('outbound: a redirect is returned and not followed', async () => {
  const server = await serve((_request, response) => {
    response.writeHead(302, { location: `http://127.0.0.1:${port(inside)}/` }).end()
  })
  const { status } = await outbound().fetch({ url: `http://127.0.0.1:${port(server)}/` })
  assert.equal(status, 302)
  assert.equal(reached, 0)
})

test('outbound: a name is resolved once, and the connection uses the checked address', async () => {
  const seen: (string | undefined)[] = []
  const open = await serve((request, response) => {
    seen.push(request.headers.host)
    response.end('open')
  })
  let reachedPrivate = 0
  await serve(
    (_request, response) => {
      reachedPrivate++
      response.end('private')
    },
    '127.0.0.2',
    port(open),
  )
  dns.names.set('rebind.test', [['127.0.0.1'], ['127.0.0.2']])
  const url = `http://rebind.test:${port(open)}/`
  const { body } = await outbound().fetch({ url })
  assert.equal(body.toString(), 'open')
  assert.deepEqual(dns.queried, ['rebind.test'])
  assert.deepEqual(seen, [`rebind.test:${port(open)}`])
  // The name now resolves to another address, which is checked again.
  assert.equal(await fetchReason({ url }), 'address_not_allowed')
  assert.equal(reachedPrivate, 0)
})

test('outbound: a name with one private address is rejected', async () => {
  for (const records of [
    ['127.0.0.1', '10.0.0.1'],
    ['169.254.169.254', '127.0.0.1'],
  ]) {
    dns.names.set('mixed.test', [records])
    assert.equal(await fetchReason({ url: `http://mixed.test:${port(inside)}/` }), 'address_not_allowed')
  }
  assert.equal(reached, 0)
})

test('outbound: a name without an address is name_not_found', async () => {
  assert.equal(await fetchReason({ url: 'http://nowhere.test/' }), 'name_not_found')
})

test('outbound: the TLS certificate must match the name, not the address', async () => {
  const good = certificateFor('provider.test')
  const server = await listening(https.createServer(good, (_request, response) => response.end('over TLS')))
  dns.names.set('provider.test', [['127.0.0.1']])
  dns.names.set('other.test', [['127.0.0.1']])
  const at = (name: string) => ({ url: `https://${name}:${port(server)}/` })
  assert.equal(await fetchReason(at('provider.test')), 'unreachable', 'the certificate is not trusted yet')
  const trusted = tls.getCACertificates('default')
  tls.setDefaultCACertificates([...trusted, good.cert])
  try {
    assert.equal((await outbound().fetch(at('provider.test'))).body.toString(), 'over TLS')
    assert.equal(await fetchReason(at('other.test')), 'unreachable')
    assert.equal(await fetchReason(at('127.0.0.1')), 'unreachable')
  } finally {
    tls.setDefaultCACertificates(trusted)
  }
})

test('outbound: an endless answer is aborted at the size limit', async () => {
  let isOpen = true
  const server = await serve((_request, response) => {
    response.on('error', () => {})
    response.on('close', () => (isOpen = false))
    const more = () => {
      while (isOpen && response.write(Buffer.alloc(16_384)));
      if (isOpen) response.once('drain', more)
    }
    more()
  })
  const url = `http://127.0.0.1:${port(server)}/`
  assert.equal(await fetchReason({ url, maxBytes: 100_000 }), 'too_large')
  while (isOpen) await new Promise(setImmediate)
})

test('outbound: an answer up to the size limit is complete', async () => {
  const server = await serve((_request, response) => response.end(Buffer.alloc(100_000, 'x')))
  const url = `http://127.0.0.1:${port(server)}/`
  assert.equal((await outbound().fetch({ url, maxBytes: 100_000 })).body.length, 100_000)
  assert.equal(await fetchReason({ url, maxBytes: 99_999 }), 'too_large')
})

test('outbound: an answer of 100,000 chunks arrives complete, over TLS as well', async () => {
  const length = 100_000
  const inChunks: RequestListener = ({ socket }) =>
    socket.end(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(length)}0\r\n\r\n`)
  const certificate = certificateFor('chunks.test')
  const encrypted = await listening(https.createServer(certificate, inChunks))
  const plain = await serve(inChunks)
  dns.names.set('chunks.test', [['127.0.0.1']])
  const trusted = tls.getCACertificates('default')
  tls.setDefaultCACertificates([...trusted, certificate.cert])
  try {
    for (const url of [`http://127.0.0.1:${port(plain)}/`, `https://chunks.test:${port(encrypted)}/`])
      assert.equal((await outbound().fetch({ url })).body.toString(), 'x'.repeat(length))
  } finally {
    tls.setDefaultCACertificates(trusted)
  }
})

test('outbound: bytes after the end of an answer are ignored', async () => {
  // Answers are parsed in pieces of 2 kB. Here the first piece ends exactly with the answer.
  const head = 'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1900\r\nx-filled: '
  const answer = `${head.padEnd(2048 - 1900 - 4, '-')}\r\n\r\n${'x'.repeat(1900)}`
  const server = await serve(({ socket }) => socket.end(answer + 'behind'.repeat(50_000)))
  const { body } = await outbound().fetch({ url: `http://127.0.0.1:${port(server)}/` })
  assert.equal(body.toString(), 'x'.repeat(1900))
})

test('outbound: a server that does not answer, or sends slowly, times out', async () => {
  const silent = await serve(() => {})
  const drips: NodeJS.Timeout[] = []
  const dripping = await serve((_request, response) => {
    response.on('error', () => {})
    response.writeHead(200)
    drips.push(setInterval(() => response.write('.'), 20))
  })
  try {
    for (const server of [silent, dripping])
      assert.equal(await fetchReason({ url: `http://127.0.0.1:${port(server)}/`, timeoutMs: 300 }), 'timeout')
  } finally {
    for (const drip of drips) clearInterval(drip)
  }
})

test('outbound: the timeout includes the DNS lookup', async () => {
  const never = createOutbound(createConnector({ allow: [], resolve: () => new Promise(() => {}) }))
  assert.equal(await reasonOf(never.fetch({ url: 'http://slow.test/', timeoutMs: 100 })), 'timeout')
})

test('outbound: compression is neither requested nor accepted', async () => {
  let acceptEncoding: unknown
  const server = await serve((request, response) => {
    acceptEncoding = request.headers['accept-encoding']
    response.writeHead(200, { 'content-encoding': 'gzip' })
    response.end(gzipSync(Buffer.alloc(1_000_000)))
  })
  const url = `http://127.0.0.1:${port(server)}/`
  assert.equal(await fetchReason({ url, headers: { 'Accept-Encoding': 'gzip' } }), 'compressed')
  assert.equal(acceptEncoding, 'identity')
})

test('outbound: headers over the size limit are rejected', async () => {
  const server = await serve((_request, response) => {
    response.writeHead(200, { 'x-long': 'x'.repeat(60_000) }).end()
  })
  assert.equal(await fetchReason({ url: `http://127.0.0.1:${port(server)}/` }), 'unreachable')
})

test('outbound: the proxy of the process is not used', async () => {
  let proxied = 0
  const proxy = await serve((_request, response) => {
    proxied++
    response.end('proxy')
  })
  const before = http.globalAgent
  const proxyEnv = {
    HTTP_PROXY: `http://127.0.0.1:${port(proxy)}`,
    http_proxy: `http://127.0.0.1:${port(proxy)}`,
  }
  http.globalAgent = new http.Agent({ proxyEnv })
  try {
    const { body } = await outbound().fetch({ url: `http://127.0.0.1:${port(inside)}/` })
    assert.equal(body.toString(), 'inside')
    assert.equal(proxied, 0)
  } finally {
    http.globalAgent = before
  }
})

test('outbound: a request can be aborted', async () => {
  const silent = await serve(() => {})
  const url = `http://127.0.0.1:${port(silent)}/`
  const controller = new AbortController()
  silent.once('request', () => controller.abort())
  assert.equal(await fetchReason({ url, signal: controller.signal }), 'aborted')
  assert.equal(await fetchReason({ url, signal: AbortSignal.abort() }), 'aborted')
})

test('outbound: a closed port is unreachable', async () => {
  const server = await serve(() => {})
  const free = port(server)
  server.close()
  await once(server, 'close')
  assert.equal(await fetchReason({ url: `http://127.0.0.1:${free}/` }), 'unreachable')
})
