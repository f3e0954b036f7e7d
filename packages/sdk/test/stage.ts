// Starts a platform with one project, and creates clients of it.
import assert from 'node:assert/strict'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { startPlatform, type TestPlatform } from '../../../apps/server/test/harness.ts'
import { createClient, PlinthError, projectUrl, type Result } from '../src/client.ts'

type ClientOptions = Parameters<typeof createClient>[2]

export interface Stage {
  platform: TestPlatform
  project: CreatedProject
  /** Has the service_role key, as the project's own servers do. */
  service: ReturnType<typeof connect>
  /** Has the anon key, as browsers do. */
  anon: ReturnType<typeof connect>
  connect(key: string, options?: ClientOptions): ReturnType<typeof connect>
  stop(): Promise<void>
}

const connect = (url: string, key: string, options?: ClientOptions) =>
  createClient(url, key, { auth: { persistSession: false, autoRefreshToken: false }, ...options })

export async function setStage(): Promise<Stage> {
  const platform = await startPlatform()
  const unlimited = { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 }
  const project = await platform.projects.create({ body: { name: 'sdk', quotas: unlimited } })
  const url = projectUrl(platform.url, project.id)
  return {
    platform,
    project,
    service: connect(url, project.service_role_key),
    anon: connect(url, project.anon_key),
    connect: (key, options) => connect(url, key, options),
    stop: () => platform.stop(),
  }
}

export function granted<T>({ data, error }: Result<T>): T {
  assert.equal(error, null)
  return data as T
}

export function refused(result: Result<unknown>, status: number, code: string): PlinthError {
  const { data, error } = result
  assert.ok(error instanceof PlinthError, `expected an error, got ${JSON.stringify(data)}`)
  assert.deepEqual([error.status, error.code, data], [status, code, null], error.message)
  assert.ok(error.message.length > 0)
  return error
}
