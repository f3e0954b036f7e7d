// HTTP requests and replies, and the two error bodies of the specification.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { errorCodes } from '@plinth/contract/errors.ts'

export interface CallOptions {
  token?: string | undefined
  apikey?: string | undefined
  /** A string is sent unchanged, anything else as JSON. */
  body?: unknown
  /** Sent unchanged instead of `body`, with its own content type or the one in the headers. */
  raw?: RequestInit['body'] | undefined
  headers?: Record<string, string>
}

export interface Reply {
  status: number
  headers: Headers
  bytes: Buffer
  text: string
  /** The parsed JSON, or undefined if the response is not JSON. */
  body: any
}

export async function send(
  url: string,
  method: string,
  { token, apikey, body, raw, headers = {} }: CallOptions = {},
): Promise<Reply> {
  const isAsItIs = typeof body === 'string' || body instanceof Uint8Array
  const init: RequestInit & { duplex?: 'half' } = {
    method,
    redirect: 'manual',
    headers: {
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(apikey !== undefined && { apikey }),
      ...headers,
    },
  }
  if (body !== undefined) init.body = isAsItIs ? (body as string) : JSON.stringify(body)
  if (raw !== undefined) init.body = raw
  // fetch requires this for a stream.
  if (raw instanceof ReadableStream) init.duplex = 'half'
  const reply = await fetch(url, init)
  return answer(reply.status, reply.headers, Buffer.from(await reply.arrayBuffer()))
}

/** Sends exactly these bytes and reads one response. */
export function sendBytes(url: string, bytes: string | Uint8Array): Promise<Reply> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const received: Buffer[] = []
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    socket.setTimeout(90_000, () => socket.destroy(new Error('the server did not answer within 90 seconds')))
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk)
      const reply = firstAnswer(Buffer.concat(received))
      if (reply) {
        socket.destroy()
        resolve(reply)
      }
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error('the server closed the connection without an answer')))
  })
}

function firstAnswer(received: Buffer): Reply | undefined {
  const end = received.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const [statusLine, ...lines] = received.subarray(0, end).toString('latin1').split('\r\n')
  const headers = new Headers(lines.map(line => line.split(/:\s*(.*)/s).slice(0, 2) as [string, string]))
  const length = Number(headers.get('content-length') ?? 0)
  const body = received.subarray(end + 4)
  if (body.length < length) return undefined
  return answer(Number(statusLine?.split(' ')[1]), headers, body.subarray(0, length))
}

export function answer(status: number, headers: Headers, bytes: Buffer): Reply {
  const text = new TextDecoder().decode(bytes)
  const isJson = text !== '' && /^application\/(.+\+)?json/.test(headers.get('content-type') ?? '')
  return { status, headers, bytes, text, body: isJson ? JSON.parse(text) : undefined }
}

const meanings: Record<string, { status: number }> = errorCodes

export function assertRequestId(reply: Reply): void {
  assert.match(reply.headers.get('x-request-id') ?? '', /^[\w-]{8,}$/, 'X-Request-Id')
}

/** 3 §7: `{error: {message, code}}` with a published code. */
export function assertManagementError(reply: Reply, code: keyof typeof errorCodes, message?: RegExp): void {
  assert.equal(reply.body?.error?.code, code, `${reply.status} ${reply.text}`)
  assert.equal(reply.status, meanings[code]?.status)
  assert.deepEqual(Object.keys(reply.body), ['error'])
  assert.deepEqual(Object.keys(reply.body.error).sort(), ['code', 'message'])
  assert.equal(typeof reply.body.error.message, 'string')
  assert.notEqual(reply.body.error.message, '')
  if (message) assert.match(reply.body.error.message, message)
  assertRequestId(reply)
}

/** The error fields of 1 §7 and of the REST contract. */
export function assertDataError(reply: Reply, code: keyof typeof errorCodes): void {
  assert.equal(reply.body?.code, code, `${reply.status} ${reply.text}`)
  assert.equal(reply.status, meanings[code]?.status)
  const { message, error, statusCode, details, hint, ...rest } = reply.body
  assert.deepEqual(rest, { code })
  assert.equal(typeof message, 'string')
  assert.notEqual(message, '')
  assert.equal(error, message)
  assert.equal(statusCode, reply.status)
  assert.equal(typeof details, 'string')
  assert.equal(typeof hint, 'string')
  assertRequestId(reply)
}

/** 3 §5.2: the message of a 403 names the required scope. */
export function assertNeedsScope(reply: Reply, scope: string): void {
  assertManagementError(reply, 'insufficient_scope', new RegExp(`\\b${scope}\\b`))
}
