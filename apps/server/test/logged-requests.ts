// A platform with a route that runs SQL, and requests to it whose answers are kept.
import { after, before } from 'node:test'
import type { Routes } from '@plinth/contract/route.ts'
import { Type } from '@plinth/contract/type.ts'
import { raw } from '#src/kernel/postgres/sql.ts'
import { statement } from '#src/tenancy/databases.ts'
import { type CallOptions, startPlatform, type TestPlatform } from './harness.ts'

/** Runs any SQL as the caller or as the project's owner. */
const sqlApi = {
  run: {
    plane: 'data',
    method: 'POST',
    path: '/sql/{project}/run',
    allow: ['service_role'],
    summary: 'Run a statement',
    body: Type.Object({ sql: Type.String(), as_owner: Type.Optional(Type.Boolean()) }),
    reply: Type.Object({ ok: Type.Boolean() }),
  },
} as const satisfies Routes

export interface Answer {
  what: string
  id: string | null
  status: number
  headers: Headers
  text: string
  body: any
}

/** Starts the platform before the tests of a file. `platform` is set from then on. */
export function loggedRequests() {
  const platform = {} as TestPlatform
  const answers: Answer[] = []

  before(async () => {
    const started = await startPlatform({
      settings: { PLATFORM_LOG_LEVEL: 'debug' },
      mount: app =>
        app.http.mount('test', app.planes.data, sqlApi, {
          async run({ body }, caller, { method, path, headers, signal }) {
            const facts = { method, path, headers: JSON.stringify(headers), signal }
            if (body.as_owner) await app.databases.asOwner(caller.tenant, session => session.script(body.sql))
            else await app.databases.asCaller(caller, facts, statement(body.sql, false), [])
            return { ok: true }
          },
        }),
    })
    Object.assign(platform, started)
  })
  after(() => platform.stop?.())

  async function ask(
    method: string,
    path: string,
    options: CallOptions & { raw?: string } = {},
  ): Promise<Answer> {
    const { token, apikey, body, headers } = options
    const sent = options.raw ?? (body === undefined ? undefined : JSON.stringify(body))
    const reply = await fetch(platform.url + path, {
      method,
      headers: {
        ...(sent !== undefined && { 'content-type': 'application/json' }),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(apikey !== undefined && { apikey }),
        ...headers,
      },
      ...(sent !== undefined && { body: sent }),
    })
    const text = await reply.text()
    const isJson = reply.headers.get('content-type')?.includes('json') && text !== ''
    const answer: Answer = {
      what: `${method} ${path.slice(0, 60)} ${reply.status}`,
      id: reply.headers.get('x-request-id'),
      status: reply.status,
      headers: reply.headers,
      text,
      body: isJson ? JSON.parse(text) : text,
    }
    answers.push(answer)
    return answer
  }
  const manage = (method: string, path: string, body?: unknown, token = platform.adminToken) =>
    ask(method, `/api/v1${path}`, { token, ...(body !== undefined && { body }) })

  async function asControl<T>(query: string): Promise<T[]> {
    return platform.asSuperuser(platform.control, session => session.rows<T>(raw(query)))
  }

  return { platform, answers, ask, manage, asControl }
}
