// A project with webhooks, and a receiver that records what it gets.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Client, client } from '@plinth/contract/client.ts'
import type { WebhookWithSecret } from '@plinth/contract/webhooks.ts'
import { webhooksApi } from '@plinth/contract/webhooks.ts'
import { type AuthProject, authProject } from './auth-project.ts'
import { eventually } from './eventually.ts'
import type { TestPlatform } from './harness.ts'

/** Receivers of tests are on this machine. */
export const allowLoopback = { PLATFORM_OUTBOUND_ALLOW: '127.0.0.1' }
/** Retries without long pauses. */
export const quickRetries = { ...allowLoopback, WEBHOOK_RETRY_BASE_DELAY: '10ms' }

export interface Received {
  headers: IncomingHttpHeaders
  /** The exact text. */
  raw: string
  body: any
}

export interface TestReceiver {
  url: string
  received: Received[]
  /** Waits until the count is reached, and returns what was received. */
  until(count: number): Promise<Received[]>
  close(): void
}

type Answering = (response: ServerResponse, received: Received, number: number) => void

export async function startReceiver(
  answer: Answering = response => void response.writeHead(200).end('ok'),
): Promise<TestReceiver> {
  const received: Received[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const raw = Buffer.concat(chunks).toString()
      const entry = { headers: request.headers, raw, body: JSON.parse(raw) }
      answer(response, entry, received.push(entry))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    received,
    async until(count) {
      await eventually(() => received.length >= count, `${count} deliveries`)
      return received
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

export interface WebhookProject extends AuthProject {
  hooks: Client<typeof webhooksApi>
  create(url: string, events?: string[]): Promise<WebhookWithSecret>
  attach(wid: string, table: string, events?: string[]): Promise<void>
  /** Runs SQL as the owner of the project. */
  sql(text: string): Promise<void>
}

export async function webhookProject(
  platform: TestPlatform,
  settings: Record<string, unknown> = {},
): Promise<WebhookProject> {
  const project = await authProject(platform, settings)
  const hooks = client(webhooksApi, { baseUrl: platform.url, token: platform.adminToken })
  return {
    ...project,
    hooks,
    create: (url, events = ['*']) => hooks.create({ params: { id: project.id }, body: { url, events } }),
    attach: async (wid, table, events) =>
      void (await hooks.attach({
        params: { id: project.id, wid },
        body: { table, ...(events && { events }) },
      })),
    async sql(text) {
      const { status, body } = await platform.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
        token: project.service_role_key,
        body: { sql: text },
      })
      assert.ok(status < 300, JSON.stringify(body))
    },
  }
}
