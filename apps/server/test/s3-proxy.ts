// A proxy before an S3 service that lets it fail or hang.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * `failing` answers each request with 500, `refusing` ends its connection, `silent` reads requests and never answers, and `stalling` stops in the middle of
 * each answer.
 */
export type Mode = 'forwarding' | 'failing' | 'refusing' | 'silent' | 'stalling'

export interface S3Proxy {
  readonly url: string
  mode: Mode
  /** Instead of `mode`. */
  modeOf?: ((request: IncomingMessage) => Mode) | undefined
  /** Requests that have neither been answered nor given up by the client. */
  readonly open: number
  /** Ends all connections, so that requests which were never answered fail now. */
  drop(): void
  close(): void
}

export async function startS3Proxy(endpoint: string): Promise<S3Proxy> {
  const { hostname, port } = new URL(endpoint)
  const open = new Set<ServerResponse>()

  function forward(request: IncomingMessage, take: (answer: IncomingMessage) => void, fail: () => void) {
    const { method, url: path, headers } = request
    const passed = send({ hostname, port, method, path, headers }, take)
    passed.on('error', fail)
    request.pipe(passed)
  }

  /** Some of the body, but none for a request that continues one. */
  function stall(
    { headers: { range = 'bytes=0-' } }: IncomingMessage,
    answer: IncomingMessage,
    response: ServerResponse,
  ): void {
    const { 'content-length': length = '100', 'transfer-encoding': _, ...headers } = answer.headers
    response.writeHead(answer.statusCode!, { ...headers, 'content-length': Math.max(2, Number(length)) })
    response.flushHeaders()
    if (range.startsWith('bytes=0-'))
      answer.once('data', (chunk: Buffer) => response.write(chunk.subarray(0, Math.ceil(chunk.length / 2))))
    answer.resume()
  }

  const server = createServer((request, response) => {
    open.add(response)
    response.on('close', () => open.delete(response))
    const mode = proxy.modeOf?.(request) ?? proxy.mode
    if (mode === 'silent') return void request.resume()
    if (mode === 'refusing') return void request.socket.destroy()
    if (mode === 'failing') return void response.writeHead(500).end()
    const take = (answer: IncomingMessage) => {
      if (mode === 'stalling') return stall(request, answer, response)
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
    }
    forward(request, take, () => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy: S3Proxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    mode: 'forwarding',
    get open() {
      return open.size
    },
    drop: () => server.closeAllConnections(),
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
  return proxy
}
