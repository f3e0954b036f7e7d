// A project with calls of its cache on the data plane and the management plane.
import assert from 'node:assert/strict'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { Reply, TestPlatform } from './harness.ts'

export interface CacheProject extends CreatedProject {
  /** A request with the service_role key, on this node or on another one. */
  cache(method: 'GET' | 'POST', path: string, body?: unknown, at?: TestPlatform): Promise<Reply>
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  set(key: string, value: string, options?: object): Promise<void>
  /** Null for a missing key. */
  get(key: string): Promise<string | null>
}

export async function cacheProject(platform: TestPlatform, quotas: object = {}): Promise<CacheProject> {
  const project = await platform.projects.create({
    body: {
      name: `cache ${crypto.randomUUID().slice(0, 8)}`,
      quotas: { rate_limit_service_role: 0, ...quotas },
    },
  })
  const cache: CacheProject['cache'] = (method, path, body, at = platform) =>
    at.call(method, `/v1/cache/${project.id}/${path}`, { token: project.service_role_key, body })
  return {
    ...project,
    cache,
    manage: (method, path, body) =>
      platform.call(method, `/api/v1/projects/${project.id}/cache/${path}`, {
        token: platform.adminToken,
        body,
      }),
    async set(key, value, options = {}) {
      const reply = await cache('POST', 'set', { key, value, ...options })
      assert.deepEqual(reply.body, { ok: true })
    },
    async get(key) {
      const reply = await cache('GET', `get/${encodeURIComponent(key)}`)
      if (reply.status === 404) return null
      assert.equal(reply.status, 200, JSON.stringify(reply.body))
      return reply.body.value
    },
  }
}
