// Edge functions of a project: deployed over the management API, called under /v1.
import assert from 'node:assert/strict'
import { type CreatedProject, createProject, unlimited } from './people.ts'
import type { Target } from './target.ts'
import { until } from './until.ts'
import type { CallOptions, Reply } from './wire.ts'

export interface FunctionsApi {
  project: CreatedProject
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  /** Creates a function, or updates it. */
  deploy(name: string, source: string | Record<string, unknown>): Promise<any>
  /** Calls a function with the service_role key: `hello/sub/path?query`. */
  call(name: string, options?: CallOptions & { method?: string }): Promise<Reply>
  /** Calls it without any credential. */
  callOpen(name: string, options?: CallOptions & { method?: string }): Promise<Reply>
  logs(name: string, query?: string): Promise<any[]>
  /** Reads the log until a line matches. */
  untilLogged(name: string, pattern: RegExp): Promise<any>
}

export async function functionsProject(
  target: Target,
  fields: Record<string, unknown> = {},
): Promise<FunctionsApi> {
  const { quotas, ...rest } = fields as { quotas?: object }
  return functionsOf(target, await createProject(target, { quotas: { ...unlimited, ...quotas }, ...rest }))
}

export function functionsOf(target: Target, project: CreatedProject): FunctionsApi {
  const root = `/projects/${project.id}/functions`
  const manage = (method: string, path: string, body?: unknown) => target.manage(method, root + path, body)
  const callOpen: FunctionsApi['callOpen'] = (name, { method = 'POST', ...options } = {}) =>
    target.call(method, `/v1/functions/${project.id}/${name}`, options)
  const logs = async (name: string, query = '') => {
    const reply = await manage('GET', `/${name}/logs${query}`)
    assert.equal(reply.status, 200, reply.text)
    return reply.body.logs as any[]
  }
  return {
    project,
    manage,
    async deploy(name, source) {
      const body = typeof source === 'string' ? { code: source } : source
      const created = await manage('POST', '', { name, ...body })
      const reply = created.status === 409 ? await manage('PUT', `/${name}`, body) : created
      assert.ok(reply.status === 200 || reply.status === 201, reply.text)
      return reply.body
    },
    call: (name, options) => callOpen(name, { token: project.service_role_key, ...options }),
    callOpen,
    logs,
    untilLogged: (name, pattern) =>
      until(`a line of the log matches ${pattern}`, async () =>
        (await logs(name, '?limit=1000')).find(({ message }) => pattern.test(message)),
      ),
  }
}

/** A function that answers with a fixed text. */
export const saying = (text: string) => `Deno.serve(() => new Response(${JSON.stringify(text)}))`
