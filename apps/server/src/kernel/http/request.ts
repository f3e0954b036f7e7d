// What the rest of the server sees of an HTTP exchange; the framework stays behind this file and its neighbours.
import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { ByteSource } from '#src/kernel/byte-source.ts'

/** Everything known before a byte of the body is read. */
export interface RequestHead {
  readonly id: string
  readonly method: string
  /** Path without the query. */
  readonly path: string
  readonly params: Readonly<Record<string, string>>
  readonly headers: IncomingHttpHeaders
  /** The client's address; what proxies say counts only if they are trusted. */
  readonly ip: string
  /** Aborts when the client hangs up before the answer is sent. Made on first use. */
  readonly signal: AbortSignal
}

/** What a `raw` route is given besides its parsed params and query. */
export interface RawRequest extends RequestHead {
  /** The query as sent, without the question mark. */
  readonly search: string
  readonly body: Readable
}

/** What a `raw` route answers. */
export interface RawReply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string | Buffer | Readable | ByteSource | null
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
