import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { paceReading, piecesOfLength } from '#src/kernel/paced-reading.ts'
import { DirectBodyRequest } from './body.ts'
import { RequestPieces } from './request-pieces.ts'

type Answer = (request: IncomingMessage, reply: ServerResponse) => void

/** A connection to a server that reads in pieces. Both are closed after the test. */
async function connected(
  t: TestContext,
  answer: Answer,
  onConnection: (socket: Socket) => void = () => {},
): Promise<Socket> {
  const server = createServer({ IncomingMessage: DirectBodyRequest as typeof IncomingMessage }, answer)
  server.on('connection', socket => {
    paceReading(socket, new RequestPieces(socket))
    onConnection(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
  client.setEncoding('latin1')
  client.on('error', () => {})
  t.after(() => {
    client.destroy()
    server.close()
  })
  return client
}

/** Everything that the client receives until the connection is closed. */
async function receivedBy(client: Socket): Promise<string> {
  let received = ''
  client.on('data', text => {
    received += text
  })
  await once(client, 'close')
  return received
}

const head = (line: string, ...headers: string[]) =>
  `${[`${line} HTTP/1.1`, 'host: x', ...headers].join('\r\n')}\r\n\r\n`
const lastRequest = head('GET /last', 'connection: close')

/** Answers with the path, the length of the body and the number of its different characters. */
const echo: Answer = (request, reply) => {
  let body = ''
  request.setEncoding('latin1')
  request.on('data', text => {
    body += text
  })
  request.on('end', () => reply.end(`<${request.url} ${body.length} ${new Set(body).size}>`))
}
const echoed = (received: string) => [...received.matchAll(/<(.*?)>/g)].map(([, text]) => text)

/** Blocks for a millisecond per call, and counts the calls in one turn of the event loop. */
class TurnCount {
  total = 0
  most = 0
  #inTurn = 0

  work(): void {
    if (this.#inTurn++ === 0)
      setImmediate(() => {
        this.#inTurn = 0
      })
    this.total++
    this.most = Math.max(this.most, this.#inTurn)
    for (const endAt = performance.now() + 1; performance.now() < endAt; );
  }
}

test('pipelined requests are answered in order', async t => {
  const client = await connected(t, echo)
  const paths = Array.from({ length: 3000 }, (_, at) => `/${at}`)
  client.write(paths.map(path => head(`GET ${path}`)).join('') + lastRequest)
  assert.deepEqual(
    echoed(await receivedBy(client)),
    [...paths, '/last'].map(path => `${path} 0 0`),
  )
})

test('one turn of the event loop handles a bounded number of pipelined requests', async t => {
  const turns = new TurnCount()
  const client = await connected(t, (_request, reply) => {
    turns.work()
    reply.end()
  })
  client.write(head('GET /').repeat(500) + lastRequest)
  await receivedBy(client)
  assert.equal(turns.total, 501)
  // Ten milliseconds for direct work, two for sliced work, and one request more of each.
  assert.ok(turns.most <= 14, `${turns.most} requests in one turn`)
})

test('bodies between pipelined requests arrive complete', async t => {
  const client = await connected(t, echo)
  const withLength = (path: string, bytes: number) =>
    head(`POST ${path}`, `content-length: ${bytes}`) + '\r\n'.repeat(bytes / 2)
  const inChunks = (path: string, chunks: number) =>
    `${head(`POST ${path}`, 'transfer-encoding: chunked')}${'1\r\nx\r\n'.repeat(chunks)}0\r\n\r\n`
  client.write(
    [
      withLength('/empty-lines', 200_000),
      head('GET /between'),
      inChunks('/chunks', 30_000),
      head('GET /again'),
      withLength('/short', 10),
      head(`GET /long-head`, `x-long: ${'y'.repeat(10_000)}`),
      lastRequest,
    ].join(''),
  )
  assert.deepEqual(echoed(await receivedBy(client)), [
    '/empty-lines 200000 2',
    '/between 0 0',
    '/chunks 30000 1',
    '/again 0 0',
    '/short 10 2',
    '/long-head 0 0',
    '/last 0 0',
  ])
})

test('requests after a body that the server did not read are also limited per turn', async t => {
  const turns = new TurnCount()
  const client = await connected(t, (request, reply) => {
    turns.work()
    reply.end(`<${request.url}>`)
  })
  client.write(
    head('POST /refused', 'content-length: 300000') +
      'x'.repeat(300_000) +
      head('GET /').repeat(300) +
      lastRequest,
  )
  assert.equal(echoed(await receivedBy(client)).length, 302)
  assert.ok(turns.most <= 14, `${turns.most} requests in one turn`)
})

test('one turn of the event loop handles a bounded number of chunks of an answer', async t => {
  const chunks = 300
  const { promise: isListening, resolve: listens } = Promise.withResolvers<void>()
  const server = createServer(async ({ socket }) => {
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
    await isListening
    socket.end(`${`3e8\r\n${'x'.repeat(1000)}\r\n`.repeat(chunks)}0\r\n\r\n`)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const call = get({ port: (server.address() as AddressInfo).port, agent: false })
  call.on('socket', socket => paceReading(socket, piecesOfLength(2048)))
  const turns = new TurnCount()
  let length = 0
  call.on('response', answer => {
    answer.on('data', bytes => {
      length += bytes.length
      turns.work()
    })
    answer.on('resume', listens)
  })
  await once(call, 'close')
  assert.equal(length, chunks * 1000)
  // Ten milliseconds for direct work, two for sliced work, and a piece of three chunks more of each.
  assert.ok(turns.most <= 20, `${turns.most} chunks in one turn`)
})

test('empty lines before a request are not put back one by one', async t => {
  let putBack = 0
  const client = await connected(t, echo, socket => {
    const { unshift } = socket
    socket.unshift = (...given) => {
      putBack++
      return unshift.apply(socket, given)
    }
  })
  client.write('\r\n'.repeat(500_000) + lastRequest)
  assert.deepEqual(echoed(await receivedBy(client)), ['/last 0 0'])
  // Putting them back one by one would take 250,000 calls.
  assert.ok(putBack < 20_000, `${putBack} times`)
})

test('requests after malformed input are not read', async t => {
  const paths: string[] = []
  const client = await connected(t, (request, reply) => {
    paths.push(request.url!)
    reply.end()
  })
  client.write(`${head('GET /first')}this is not HTTP\r\n\r\n${head('GET /behind').repeat(1000)}`)
  await receivedBy(client)
  assert.deepEqual(paths, ['/first'])
})

test('a client that disconnects while its requests are read causes no error', async t => {
  const turns = new TurnCount()
  let socket: Socket | undefined
  const client = await connected(t, (request, reply) => {
    socket = request.socket
    turns.work()
    reply.end()
  })
  client.write(head('GET /').repeat(2000), () => client.destroy())
  while (!socket?.closed) await new Promise(resolve => setImmediate(resolve))
  // The rest of its requests would be read in these turns.
  for (let turn = 0; turn < 20; turn++) await new Promise(resolve => setImmediate(resolve))
})
