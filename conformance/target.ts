// The platform under test. With CONFORMANCE_URL and CONFORMANCE_TOKEN set it is that server; otherwise each
// file starts its own. Nothing but HTTP is used either way.
import { type CallOptions, type Reply, send } from './wire.ts'

export interface Target {
  url: string
  adminToken: string
  /** Calls any path as nobody, or as whom the options say. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
  /** Calls a path under /api/v1 with the admin token. */
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  stop(): Promise<void>
}

/** Settings the platform starts with; of a server that runs already they are its operator's business. */
export type Settings = Record<string, string>

/** Lifts what would get in the way of many calls from one address. */
export const unlimited: Settings = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
}

export async function target(settings: Settings = unlimited): Promise<Target> {
  const url = process.env['CONFORMANCE_URL']
  const adminToken = process.env['CONFORMANCE_TOKEN']
  return url && adminToken ? reach(url.replace(/\/$/, ''), adminToken, async () => {}) : freshTarget(settings)
}

/** For rules about an empty platform or about the settings themselves: always a platform of our own. */
export async function freshTarget(settings: Settings = unlimited): Promise<Target> {
  const { startPlatform } = await import('../apps/server/test/harness.ts')
  const platform = await startPlatform({ settings })
  return reach(platform.url, platform.adminToken, () => platform.stop())
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
