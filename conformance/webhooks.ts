// Webhooks of a project, and receivers on this machine that record what is delivered to them.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { type AuthApi, authProject, succeeded } from './auth.ts'
import { nowSeconds, uuid } from './people.ts'
import type { Settings, Target } from './target.ts'
import { until } from './until.ts'
import type { Reply } from './wire.ts'

/** Receivers of tests are on this machine, and a retry follows at once. */
export const localReceivers: Settings = {
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.1',
  WEBHOOK_RETRY_BASE_DELAY: '10ms',
}
/** A public address that no test calls. */
export const elsewhere = 'https://93.184.215.14/hook'

export interface Received {
  method: string
  path: string
  headers: IncomingHttpHeaders
  /** The exact text. */
  raw: string
  body: any
  at: number
}

export interface Receiver {
  url: string
  received: Received[]
  /** Waits for this many requests and returns all of them. */
  until(count: number): Promise<Received[]>
  close(): void
}

/** Answers a request. The number counts the requests from 1. */
export type Answering = (response: ServerResponse, number: number, request: Received) => void
export const answering =
  (status: number, text = '', headers: Record<string, string> = {}): Answering =>
  response =>
    void response.writeHead(status, headers).end(text)

export async function startReceiver(
  answer: Answering = answering(200, 'ok'),
  tls?: { key: string; cert: string },
): Promise<Receiver> {
  const received: Received[] = []
  const receive: RequestListener = (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const raw = Buffer.concat(chunks).toString()
      const { method = '', url: path = '', headers } = request
      const entry = { method, path, headers, raw, body: parsed(raw), at: performance.now() }
      answer(response, received.push(entry), entry)
    })
    // The platform may close a connection whose answer does not end.
    response.on('error', () => {})
  }
  const server = tls ? createSecureServer(tls, receive) : createServer(receive)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}/hook?from=test`,
    received,
    until: count => until(`${count} deliveries arrive`, async () => received.length >= count && received),
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

function parsed(raw: string): unknown {
  try {
    return JSON.parse(raw)
  } catch {
    return undefined
  }
}

export interface WebhooksApi extends AuthApi {
  /** Calls a path under `webhooks` of the project with the admin token. */
  hooks(method: string, path: string, body?: unknown): Promise<Reply>
  /** A new webhook with its secret. */
  create(url: string, events?: string[]): Promise<any>
  read(wid: string): Promise<any>
  update(wid: string, fields: Record<string, unknown>): Promise<any>
  attach(wid: string, table: string, fields?: { schema?: string; events?: string[] }): Promise<any>
  detach(wid: string, table: string, query?: string): Promise<void>
  attachments(wid: string): Promise<any[]>
  /** Newest first. */
  deliveries(wid: string, query?: string): Promise<any[]>
  /** With its payload. */
  delivery(wid: string, id: string): Promise<any>
  /** Waits until this many deliveries, and no more, have this status and none is pending. */
  ended(wid: string, status: 'delivered' | 'dead_letter', count?: number): Promise<any[]>
}

export async function webhooksProject(
  target: Target,
  fields: Record<string, unknown> = {},
): Promise<WebhooksApi> {
  return webhooksOf(target, await authProject(target, { auto_confirm: true }, fields))
}

export function webhooksOf(target: Target, auth: AuthApi): WebhooksApi {
  const root = `/projects/${auth.project.id}/webhooks`
  const hooks = (method: string, path: string, body?: unknown) => target.manage(method, root + path, body)
  const deliveries = async (wid: string, query = '') =>
    succeeded(await hooks('GET', `/${wid}/deliveries?limit=100${query}`)).deliveries
  return {
    ...auth,
    hooks,
    async create(url, events = ['*']) {
      const reply = await hooks('POST', '', { url, events })
      assert.equal(reply.status, 201, reply.text)
      return reply.body
    },
    read: async wid => succeeded(await hooks('GET', `/${wid}`)),
    update: async (wid, change) => succeeded(await hooks('PATCH', `/${wid}`, change)),
    attach: async (wid, table, options) =>
      succeeded(await hooks('POST', `/${wid}/attach`, { table, ...options })),
    async detach(wid, table, query = '') {
      const reply = await hooks('DELETE', `/${wid}/attach/${encodeURIComponent(table)}${query}`)
      assert.deepEqual([reply.status, reply.text], [204, ''])
    },
    attachments: async wid => succeeded(await hooks('GET', `/${wid}/attachments`)).attachments,
    deliveries,
    delivery: async (wid, id) => succeeded(await hooks('GET', `/${wid}/deliveries/${id}`)),
    ended: (wid, status, count = 1) =>
      until(`${count} deliveries have the status ${status}`, async () => {
        const all: any[] = await deliveries(wid)
        const found = all.filter(delivery => delivery.status === status)
        assert.ok(found.length <= count, `${found.length} deliveries have the status ${status}`)
        return found.length === count && all.every(each => each.status !== 'pending') && found
      }),
  }
}

/** 2 §5: the signature with the whole secret. */
export const signatureOf = (secret: string, { headers, raw }: Received) =>
  `v1=${createHmac('sha256', secret).update(`${headers['x-webhook-timestamp']}.${raw}`).digest('hex')}`

/** The signature with the library that receivers use. */
export const verify = (secret: string, { headers, raw }: Received) =>
  new Webhook(secret).verify(raw, headers as Record<string, string>)

/** 2 §5 and the issue: the headers of every delivery, which is signed with one secret. */
export function assertSigned(delivered: Received, secret: string): void {
  const { method, headers } = delivered
  assert.equal(method, 'POST')
  assert.match(headers['content-type'] ?? '', /^application\/json/)
  assert.match(String(headers['x-webhook-id']), uuid)
  assert.match(String(headers['x-webhook-timestamp']), /^\d{10}$/)
  assert.ok(Math.abs(Number(headers['x-webhook-timestamp']) - nowSeconds()) < 300)
  assert.equal(headers['x-webhook-signature'], signatureOf(secret, delivered))
  assert.equal(headers['webhook-timestamp'], headers['x-webhook-timestamp'])
  assert.match(String(headers['webhook-id']), /^[\w-]{8,}$/)
  assert.match(String(headers['webhook-signature']), /^v1,[A-Za-z0-9+/]{43}=$/)
  verify(secret, delivered)
}
