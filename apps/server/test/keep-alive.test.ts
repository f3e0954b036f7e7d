// Webhook deliveries over kept connections, with real servers.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import type { ServerResponse } from 'node:http'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { createKeepAlive, type KeepAlive, type KeepAliveOptions } from '#src/kernel/outbound/keep-alive.ts'
import { eventually } from './eventually.ts'
import { createReceivers, plainAnswer, reasonOf } from './receivers.ts'

const receivers = createReceivers()
const clients: KeepAlive[] = []
after(async () => {
  for (const client of clients) await client.close()
  receivers.close()
})

/** Connections stay open for a minute, so that a slow machine closes none between two requests. */
function createClient(options: Partial<KeepAliveOptions> = {}): KeepAlive {
  const client = createKeepAlive(createConnector({ allow: ['127.0.0.1'] }), { idleMs: 60_000, ...options })
  clients.push(client)
  return client
}
const timeoutMs = 120_000
const isOpen = (socket: { destroyed: boolean }) => !socket.destroyed

test('keep-alive: a request has method, path, headers, length and body', async () => {
  const receiver = await receivers.raw((socket, { text }) => socket.write(plainAnswer(text)))
  const { body, status } = await createClient({ keptBytes: 2000 }).post({
    url: `${receiver.url}a%20b?c=d#e`,
    headers: { 'content-type': 'application/json', 'user-agent': 'Test' },
    body: '{"grüße":1}',
    timeoutMs,
  })
  assert.equal(status, 200)
  const [head = '', content] = body.split('\r\n\r\n')
  assert.deepEqual(head.split('\r\n'), [
    'POST /a%20b?c=d HTTP/1.1',
    `host: 127.0.0.1:${receiver.port}`,
    'connection: keep-alive',
    'user-agent: Test',
    'content-type: application/json',
    'accept-encoding: identity',
    'content-length: 13',
  ])
  assert.equal(Buffer.from(content!, 'latin1').toString(), '{"grüße":1}')
})

test('keep-alive: the body may be bytes, and may be empty', async () => {
  const receiver = await receivers.http((request, response) => {
    response.write(`${request.headers['content-length']}:`)
    request.pipe(response)
  })
  const client = createClient()
  assert.equal(
    (await client.post({ url: receiver.url, body: Buffer.from('grüße'), timeoutMs })).body,
    '7:grüße',
  )
  assert.equal((await client.post({ url: receiver.url, body: '', timeoutMs })).body, '0:')
})

test('keep-alive: a body is cut at a character', async () => {
  const bodies = ['é'.repeat(600), `x${'é'.repeat(600)}`, `xx${'😀'.repeat(300)}`, 'é'.repeat(512), '']
  for (const isSplit of [false, true]) {
    const receiver = await receivers.http((request, response) => {
      const bytes = Buffer.from(bodies[Number(request.url?.slice(1))]!)
      response.writeHead(200)
      if (!isSplit) return response.end(bytes)
      for (let at = 0; at < bytes.length; at += 7) response.write(bytes.subarray(at, at + 7))
      response.end()
    })
    const kept: string[] = []
    for (const index of bodies.keys())
      kept.push((await createClient().post({ url: `${receiver.url}${index}`, body: '', timeoutMs })).body)
    assert.deepEqual(kept, [
      'é'.repeat(512),
      `x${'é'.repeat(511)}`,
      `xx${'😀'.repeat(255)}`,
      'é'.repeat(512),
      '',
    ])
  }
})

test('keep-alive: an answer may have up to the maximum size', async () => {
  const receiver = await receivers.http((_request, response) => response.end(Buffer.alloc(10_000, 'x')))
  const request = { url: receiver.url, body: '', timeoutMs }
  assert.equal((await createClient({ maxBytes: 10_000 }).post(request)).body.length, 1024)
  assert.equal(await reasonOf(createClient({ maxBytes: 9999 }).post(request)), 'answer_too_large')
})

test('keep-alive: any status is an answer, and redirects are not followed', async () => {
  const receiver = await receivers.http((request, response) => {
    response.writeHead(Number(request.url?.slice(1)), { location: '/204' }).end()
  })
  const client = createClient()
  for (const status of [200, 204, 301, 302, 304, 308, 404, 410, 500, 599])
    assert.equal(
      (await client.post({ url: `${receiver.url}${status}`, body: 'x', timeoutMs })).status,
      status,
    )
  assert.equal(receiver.connections.length, 1)
})

test('keep-alive: requests one after the other use one connection', async () => {
  const receiver = await receivers.http((_request, response) => response.end('ok'))
  const client = createClient()
  for (let number = 0; number < 20; number++)
    assert.deepEqual(await client.post({ url: receiver.url, body: '{}', timeoutMs }), {
      status: 200,
      body: 'ok',
    })
  assert.equal(receiver.connections.length, 1)
})

test('keep-alive: a connection is not used again if the server asks for it', async () => {
  for (const header of ['connection: close', 'keep-alive: timeout=1']) {
    const receiver = await receivers.raw(socket => socket.write(plainAnswer('ok', `${header}\r\n`)))
    const client = createClient()
    for (let number = 0; number < 3; number++)
      assert.equal((await client.post({ url: receiver.url, body: '{}', timeoutMs })).body, 'ok')
    assert.equal(receiver.connections.length, 3)
  }
})

test('keep-alive: an origin has at most ten connections, and further requests wait in order', async () => {
  const held: ServerResponse[] = []
  const urls: (string | undefined)[] = []
  const receiver = await receivers.http((request, response) => {
    urls.push(request.url)
    held.push(response)
  })
  const client = createClient()
  const posts = Array.from({ length: 25 }, (_, number) =>
    client.post({ url: `${receiver.url}${number}`, body: '{}', timeoutMs }),
  )
  await eventually(() => held.length === 10, 'ten requests arrive')
  const behind = reasonOf(client.post({ url: receiver.url, body: '{}', timeoutMs: 50 }))
  assert.equal(await behind, 'timeout')
  for (let ended = 0; ended < 25; ended++)
    (await eventually(() => held.shift(), 'a request arrives')).end('ok')
  await Promise.all(posts)
  assert.equal(receiver.connections.length, 10)
  assert.deepEqual(
    urls.slice(10),
    Array.from({ length: 15 }, (_, index) => `/${index + 10}`),
  )
})

test('keep-alive: a waiting request continues when a connection is closed or its request is cancelled', async () => {
  const held: ServerResponse[] = []
  const receiver = await receivers.http((_request, response) => held.push(response))
  const client = createClient({ maxPerOrigin: 1 })
  const cancel = new AbortController()
  const first = reasonOf(client.post({ url: receiver.url, body: '', timeoutMs, signal: cancel.signal }))
  await eventually(() => held.length === 1, 'the first request arrives')
  const second = reasonOf(client.post({ url: receiver.url, body: '', timeoutMs }))
  const third = client.post({ url: receiver.url, body: '', timeoutMs })
  cancel.abort()
  assert.equal(await first, 'cancelled')
  await eventually(() => held.length === 2, 'the second request arrives')
  held[1]!.destroy()
  assert.equal(await second, 'closed')
  await eventually(() => held.length === 3, 'the third request arrives')
  held[2]!.end('ok')
  assert.equal((await third).body, 'ok')
})

test('keep-alive: an unused connection is closed after a while', async () => {
  const receiver = await receivers.raw(socket => socket.write(plainAnswer('ok')))
  await createClient({ idleMs: 20 }).post({ url: receiver.url, body: '', timeoutMs })
  await eventually(() => receiver.connections.every(socket => socket.destroyed), 'the connection is closed')
})

test('keep-alive: unused connections are limited over all origins', async () => {
  const client = createClient({ maxIdle: 3 })
  const all = await Promise.all(
    Array.from({ length: 5 }, () => receivers.http((_request, response) => response.end('ok'))),
  )
  for (const { url } of all) await client.post({ url, body: '', timeoutMs })
  const open = () => all.map(({ connections }) => connections.some(isOpen))
  await eventually(() => open().filter(Boolean).length === 3, 'two connections are closed')
  assert.deepEqual(open(), [false, false, true, true, true], 'those that were unused for the longest time')
})

test('keep-alive: a request is sent again if its kept connection is closed without an answer', async () => {
  for (const method of ['end', 'resetAndDestroy'] as const) {
    const receiver = await receivers.raw((socket, { number }) => {
      if (number === 2) socket[method]()
      else socket.write(plainAnswer(`answer ${number}`))
    })
    const client = createClient()
    const request = { url: receiver.url, body: '{}', timeoutMs }
    assert.equal((await client.post(request)).body, 'answer 1')
    assert.equal((await client.post(request)).body, 'answer 3')
    assert.equal(receiver.connections.length, 2)
  }
})

test('keep-alive: a request is sent again on a new connection, not on another kept one', async () => {
  const receiver = await receivers.raw((socket, { number }) => {
    if (number <= 2) answerBoth()
    else if (receiver.connections.indexOf(socket) < 2) socket.end()
    else socket.write(plainAnswer('ok'))
  })
  const answerBoth = () => {
    if (receiver.requests === 2) for (const each of receiver.connections) each.write(plainAnswer('kept'))
  }
  const client = createClient()
  const request = { url: receiver.url, body: '{}', timeoutMs }
  await Promise.all([client.post(request), client.post(request)])
  assert.equal((await client.post(request)).body, 'ok')
  assert.deepEqual([receiver.requests, receiver.connections.length], [4, 3])
})

test('keep-alive: a connection that the server closed while it was unused is replaced', async () => {
  const receiver = await receivers.raw(socket => socket.write(plainAnswer('ok')))
  const client = createClient()
  for (let number = 1; number <= 20; number++) {
    assert.equal((await client.post({ url: receiver.url, body: '{}', timeoutMs })).body, 'ok')
    receiver.connections.at(-1)!.destroy()
  }
  assert.equal(receiver.requests, 20)
})

test('keep-alive: a request is sent again only once, and not after a part of the answer', async () => {
  const closing = await receivers.raw((socket, { number }) => {
    if (number === 1) socket.write(plainAnswer('ok'))
    else socket.end()
  })
  const client = createClient()
  assert.equal((await client.post({ url: closing.url, body: '{}', timeoutMs })).body, 'ok')
  assert.equal(await reasonOf(client.post({ url: closing.url, body: '{}', timeoutMs })), 'closed')
  assert.equal(closing.requests, 3)

  const partial = await receivers.raw((socket, { number }) => {
    if (number === 1) socket.write(plainAnswer('ok'))
    else socket.end('HTTP/1.1 200')
  })
  assert.equal((await client.post({ url: partial.url, body: '{}', timeoutMs })).body, 'ok')
  assert.equal(await reasonOf(client.post({ url: partial.url, body: '{}', timeoutMs })), 'closed')
  assert.equal(partial.requests, 2)
})

test('keep-alive: a server that refuses connections: connect', async () => {
  const receiver = await receivers.http((_request, response) => response.end())
  const gone = createReceivers()
  const { url } = await gone.http((_request, response) => response.end())
  gone.close()
  const client = createClient()
  assert.equal(await reasonOf(client.post({ url, body: '', timeoutMs })), 'connect')
  assert.equal(await reasonOf(client.post({ url: receiver.url, body: '', timeoutMs })), 'answered')
})

test('keep-alive: a signal cancels a request before and after it was sent', async () => {
  const receiver = await receivers.raw(() => {})
  const client = createClient()
  const cancel = new AbortController()
  const request = { url: receiver.url, body: '', timeoutMs, signal: cancel.signal }
  const running = reasonOf(client.post(request))
  await eventually(() => receiver.requests === 1, 'the request arrives')
  const starting = reasonOf(client.post(request))
  cancel.abort()
  assert.equal(await running, 'cancelled')
  assert.equal(await starting, 'cancelled')
  assert.equal(await reasonOf(client.post(request)), 'cancelled')
  await eventually(() => !receiver.connections.some(isOpen), 'the connections are closed')
  assert.equal(receiver.requests, 1)
})

test('keep-alive: closing cancels all requests and closes all connections', async () => {
  const silent = await receivers.raw(() => {})
  const kept = await receivers.http((_request, response) => response.end('ok'))
  const client = createClient({ maxPerOrigin: 1 })
  await client.post({ url: kept.url, body: '', timeoutMs })
  const running = Array.from({ length: 3 }, () =>
    reasonOf(client.post({ url: silent.url, body: '', timeoutMs })),
  )
  await eventually(() => silent.requests === 1, 'the request arrives')
  await client.close()
  for (const reason of await Promise.all(running)) assert.equal(reason, 'cancelled')
  assert.equal(await reasonOf(client.post({ url: kept.url, body: '', timeoutMs })), 'cancelled')
  await eventually(() => ![...silent.connections, ...kept.connections].some(isOpen), 'all are closed')
})

test('keep-alive: the client library is loaded by the first request, and the process can end with kept connections', async () => {
  const receiver = await receivers.http((_request, response) => response.end('ok'))
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `import { createRequire } from 'node:module'
       import { createConnector } from '#src/kernel/outbound/connect.ts'
       import { createKeepAlive } from '#src/kernel/outbound/keep-alive.ts'
       const isLoaded = () => Object.keys(createRequire(import.meta.url).cache).some(path => /undici/.test(path))
       const client = createKeepAlive(createConnector({ allow: ['127.0.0.1'] }), { idleMs: 3_600_000 })
       await client.check('${receiver.url}')
       console.log(isLoaded())
       await client.post({ url: '${receiver.url}', body: '', timeoutMs: 3_600_000 })
       console.log(isLoaded())`,
    ],
    { cwd: new URL('..', import.meta.url) },
  )
  assert.deepEqual(stdout.trim().split('\n'), ['false', 'true'])
})
