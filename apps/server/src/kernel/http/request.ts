// HTTP requests and answers as the rest of the server sees them, without types of the framework.
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { ByteSource } from '#src/kernel/byte-source.ts'

/** The request without its body. */
export interface RequestHead {
  readonly id: string
  readonly method: string
  /** Path without the query. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly headers: IncomingHttpHeaders
  /** The client's address. Headers of proxies are used only if the proxy is trusted. */
  readonly ip: string
  /** Aborts when the client disconnects before the answer is sent. */
  readonly signal: AbortSignal
}

/** The argument of a `raw` handler besides the parsed params and query. */
export interface RawRequest extends RequestHead {
  /** The query as sent, without the question mark. */
  readonly search: string
  readonly body: Readable
  /** Like `signal`, for work that is too short to pay for one. Returns a function that ends the listening. */
  onDisconnect(run: () => void): () => void
}

/** The answer of a `raw` handler. */
export interface RawReply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body: string | Buffer | Readable | ByteSource | null
  /** The body of the request is still read while the answer is sent. Otherwise its rest is dropped. */
  readonly isReadingRequest?: boolean
}

export const jsonReply = (
  status: number,
  value: unknown,
  headers: Record<string, string> = {},
): RawReply => ({
  status,
  headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
  body: JSON.stringify(value),
})
