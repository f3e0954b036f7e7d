// The platform under test: the server of CONFORMANCE_URL and CONFORMANCE_TOKEN if both are set, otherwise one
// that the test file starts. The tests use only HTTP.
import { type CallOptions, type Reply, send } from './wire.ts'

export interface Target {
  url: string
  adminToken: string
  /** Calls any path, without a credential unless the options have one. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  /** Calls a path under /api/v1 with the admin token. */
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  stop(): Promise<void>
}

/** As environment variables. */
export type Settings = Record<string, string>

export async function target(): Promise<Target> {
  const url = process.env['CONFORMANCE_URL']
  const adminToken = process.env['CONFORMANCE_TOKEN']
  return url && adminToken ? reach(url.replace(/\/$/, ''), adminToken, async () => {}) : freshTarget()
}

export interface FreshTarget extends Target {
  /** Starts another node of the platform, with other settings. */
  join(settings: Settings): Promise<Target>
}

/** Always starts a platform: for tests that need an empty platform or other settings. */
export async function freshTarget(settings: Settings = {}): Promise<FreshTarget> {
  const { startPlatform } = await import('../apps/server/test/harness.ts')
  const platform = await startPlatform({ settings })
  return {
    ...reach(platform.url, platform.adminToken, () => platform.stop()),
    async join(others) {
      const node = await startPlatform({ settings: others, beside: platform })
      return reach(node.url, node.adminToken, () => node.stop())
    },
  }
}

function reach(url: string, adminToken: string, stop: () => Promise<void>): Target {
  return {
    url,
    adminToken,
    call: (method, path, options) => send(url + path, method, options),
    manage: (method, path, body) => send(`${url}/api/v1${path}`, method, { token: adminToken, body }),
    stop,
  }
}
