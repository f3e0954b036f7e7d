// Sends the cases of attacks.ts.
import { once } from 'node:events'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'

export interface HttpRequest {
  method: string
  path: string
  headers?: Record<string, string>
  body?: Buffer
}

const timeoutMs = 60_000

/** Returns the status, or 0 if the platform closed the connection without one or did not answer in time. */
export async function send(url: string, { method, path, headers = {}, body }: HttpRequest): Promise<number> {
  const sending = request(url + path, {
    method,
    headers: { ...headers, ...(body && { 'content-length': String(body.length) }) },
    signal: AbortSignal.timeout(timeoutMs),
    agent: false,
  })
  const answered = new Promise<number>(resolve => {
    sending.once('response', answer => {
      answer.resume()
      answer.on('error', () => {})
      answer.once('close', () => resolve(answer.statusCode!))
    })
    sending.once('error', () => resolve(0))
  })
  sending.end(body)
  return answered
}

/** Opens a socket, sends the frames and waits until a harmless last one is answered or the socket is closed. */
export async function sendFrames(
  url: string,
  path: string,
  frames: readonly (string | Buffer)[],
): Promise<number> {
  const socket = new WebSocket(url.replace(/^http/, 'ws') + path)
  await once(socket, 'open')
  const finished = Promise.race([
    once(socket, 'close').then(() => 0),
    new Promise<number>(resolve => {
      socket.addEventListener('message', ({ data }) => {
        if (String(data).includes('"last"')) resolve(101)
      })
    }),
  ])
  for (const frame of frames) socket.send(frame as string)
  socket.send(JSON.stringify([null, 'last', 'phoenix', 'heartbeat', {}]))
  const status = await finished
  socket.close()
  return status
}

/** Sends raw bytes over a new connection, and waits until it is closed. */
export async function sendRaw(url: string, bytes: Buffer): Promise<number> {
  const socket = await openConnection(url)
  const status = readStatus(socket)
  socket.resume()
  const closed = once(socket, 'close')
  socket.write(bytes)
  await closed
  return status
}

/** Opens a WebSocket, sends raw bytes, and waits until the last heartbeat is answered or the socket is closed. */
export async function sendRawFrames(url: string, path: string, bytes: Buffer): Promise<number> {
  const socket = await openConnection(url)
  const head = [
    `GET ${path} HTTP/1.1`,
    'Host: x',
    'Upgrade: websocket',
    'Connection: Upgrade',
    'Sec-WebSocket-Version: 13',
    `Sec-WebSocket-Key: ${Buffer.alloc(16).toString('base64')}`,
  ]
  const status = readStatus(socket)
  socket.write(`${head.join('\r\n')}\r\n\r\n`)
  await status
  const { promise: finished, resolve: finish } = Promise.withResolvers<void>()
  let tail = ''
  socket.on('data', chunk => {
    tail = (tail + chunk.toString('latin1')).slice(-1000)
    if (tail.includes('"last"')) finish()
  })
  socket.on('close', finish)
  socket.write(bytes)
  socket.write(maskedText(JSON.stringify([null, 'last', 'phoenix', 'heartbeat', {}])))
  await finished
  socket.destroy()
  return status
}

async function openConnection(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** The status of the first answer; 0 if there is none. */
const readStatus = (socket: Socket) =>
  new Promise<number>(resolve => {
    socket.once('data', chunk => resolve(Number(/^HTTP\/1.1 (\d+)/.exec(chunk.toString('latin1'))?.[1])))
    socket.once('close', () => resolve(0))
  })

/** A short text frame of a client, masked with zeros. */
const maskedText = (text: string) => Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0, ...Buffer.from(text)])
