// Servers that receive webhooks, well-behaved ones and hostile ones, for the tests of keep-alive.ts.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { PostError } from '#src/kernel/outbound/post-error.ts'
import type { Certificate } from './certificate.ts'

export interface Receiver {
  port: number
  /** With 127.0.0.1 as the host. */
  url: string
  /** All connections that were ever open. */
  connections: Socket[]
  /** Number of complete requests, if the receiver is raw. */
  requests: number
}

/** Called for each complete request of a connection. */
type RawListener = (socket: Socket, request: { number: number; text: string }) => void

export interface Receivers {
  http(listener: RequestListener, at?: { host?: string; port?: number }): Promise<Receiver>
  https(certificate: Certificate, listener: RequestListener): Promise<Receiver>
  /** Without a parser, so that it can send anything. */
  raw(listener: RawListener, onConnection?: (socket: Socket) => void): Promise<Receiver>
  close(): void
}

export function createReceivers(): Receivers {
  const servers: Server[] = []
  const all: Socket[] = []

  async function listen(server: Server, protocol = 'http', host = '127.0.0.1', at = 0): Promise<Receiver> {
    servers.push(server)
    server.listen(at, host)
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const receiver = {
      port,
      url: `${protocol}://127.0.0.1:${port}/`,
      connections: [] as Socket[],
      requests: 0,
    }
    server.on('connection', socket => {
      socket.on('error', () => {})
      receiver.connections.push(socket)
      all.push(socket)
    })
    return receiver
  }

  return {
    http: (listener, at) => listen(createHttpServer(listener), 'http', at?.host, at?.port),
    https: (certificate, listener) => listen(createHttpsServer(certificate, listener), 'https'),
    async raw(listener, onConnection) {
      const server = createServer(socket => {
        onConnection?.(socket)
        let text = ''
        socket.on('data', chunk => {
          text += chunk.toString('latin1')
          for (let end = endOfRequest(text); end > 0; end = endOfRequest(text)) {
            receiver.requests++
            listener(socket, { number: receiver.requests, text: text.slice(0, end) })
            text = text.slice(end)
          }
        })
      })
      const receiver = await listen(server)
      return receiver
    },
    close() {
      for (const socket of all) socket.destroy()
      for (const server of servers) server.close()
    },
  }
}

/** 0 if the request is incomplete. */
function endOfRequest(text: string): number {
  const head = text.indexOf('\r\n\r\n')
  const length = Number(/content-length: (\d+)/.exec(text)?.[1])
  return head > 0 && text.length >= head + 4 + length ? head + 4 + length : 0
}

/** Writes the text again and again, as fast as the other side reads it. */
export function sendForever(socket: Socket, text: string): void {
  const bytes = Buffer.from(text.repeat(Math.ceil(16_384 / text.length)))
  const more = () => {
    while (socket.writable && socket.write(bytes));
  }
  socket.on('drain', more)
  more()
}

/** Sends the text once every few milliseconds. */
export function drip(socket: Socket, text: string): void {
  const timer = setInterval(() => socket.write(text), 5)
  socket.on('close', () => clearInterval(timer))
}

/** The reason of a PostError, or `answered`. */
export const reasonOf = (work: Promise<unknown>) =>
  work.then(
    () => 'answered',
    error => {
      assert.ok(error instanceof PostError, String(error?.stack))
      assert.match(error.message, /^[A-Z][^\n]+\.$/)
      return error.reason
    },
  )

export const plainAnswer = (body: string, head = '') =>
  `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${head}\r\n${body}`
