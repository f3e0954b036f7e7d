// A platform for tests of edge functions, with the state of its runtime.
import assert from 'node:assert/strict'
import { type FunctionsApi, functionsProject } from '../../../conformance/functions.ts'
import type { Target } from '../../../conformance/target.ts'
import { send } from '../../../conformance/wire.ts'
import { type PlatformOptions, startPlatform, type TestPlatform } from './harness.ts'

export interface FunctionsPlatform extends Target {
  platform: TestPlatform
  createProject(quotas?: Record<string, number>): Promise<FunctionsApi>
  /** The answer of the internal port. */
  health(): Promise<any>
}

export async function startFunctionsPlatform(
  settings: Record<string, string> = {},
  options: PlatformOptions = {},
): Promise<FunctionsPlatform> {
  const platform = await startPlatform({
    ...options,
    settings: { PLATFORM_RATE_LIMIT_ANON: '0', ...settings },
  })
  const { url, adminToken } = platform
  const target: Target = {
    url,
    adminToken,
    call: (method, path, call) => send(url + path, method, call),
    manage: (method, path, body) => send(`${url}/api/v1${path}`, method, { token: adminToken, body }),
    stop: () => platform.stop(),
  }
  return {
    ...target,
    platform,
    createProject: quotas => functionsProject(target, { quotas }),
    async health() {
      const line = platform.logged.find(each => each.includes('internal port'))
      assert.ok(line, 'the internal port is logged')
      const { port } = JSON.parse(line) as { port: number }
      const reply = await fetch(`http://127.0.0.1:${port}/health`)
      assert.equal(reply.status, 200)
      return reply.json()
    },
  }
}
