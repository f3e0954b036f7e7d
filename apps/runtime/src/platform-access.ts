// Lets functions call the platform at its public URL. The requests go through a Unix socket, on which the platform serves
// only the project of this worker: all addresses of the machine itself are denied to functions.
import { deno } from './deno.ts'

/** Never resolved: the Unix socket is the only place that requests to it can reach. */
const insideOrigin = 'http://platform.invalid'

/**
 * Deno does not check the address that the name of a SOCKS proxy has, so that a proxy could be on the local network. Web
 * Workers would have a `Deno` without this change; other threads are closed by the filter of system calls.
 */
export function refuseProxies(): void {
  const create = deno.createHttpClient.bind(deno)
  Object.defineProperty(deno, 'createHttpClient', {
    value: (options: { proxy?: unknown } = {}) => {
      if (options.proxy !== undefined) throw new TypeError('Functions cannot use proxies')
      return create(options as Parameters<typeof create>[0])
    },
  })
  Object.defineProperty(globalThis, 'Worker', {
    value: class {
      constructor() {
        throw new TypeError('Functions cannot start workers')
      }
    },
  })
}

export function providePlatform(baseUrl: string, socketPath: string): void {
  const client = deno.createHttpClient({ proxy: { transport: 'unix', path: socketPath } })
  const realFetch = globalThis.fetch
  const RealWebSocket = globalThis.WebSocket
  const httpBase = `${baseUrl}/v1/`
  const socketBase = httpBase.replace(/^http/, 'ws')
  /** The address inside, if the URL is one of the platform. */
  const inside = (url: string, base: string): string | undefined =>
    url.startsWith(base) ? `${insideOrigin}/v1/${url.slice(base.length)}` : undefined

  globalThis.fetch = ((input: string | URL | Request, init?: RequestInit) => {
    const url = inside(input instanceof Request ? input.url : String(input), httpBase)
    if (url === undefined) return realFetch(input, init)
    const target = input instanceof Request ? new Request(url, input) : url
    return realFetch(target, { ...init, client } as RequestInit)
  }) as typeof fetch

  globalThis.WebSocket = class extends RealWebSocket {
    constructor(url: string | URL, protocols?: ConstructorParameters<typeof WebSocket>[1]) {
      const target = inside(String(url), socketBase)
      if (target === undefined) super(url, protocols)
      else {
        const options = typeof protocols === 'object' && !Array.isArray(protocols) ? protocols : { protocols }
        super(target.replace(/^http/, 'ws'), { ...options, client } as unknown as string[])
      }
    }
  }
}
