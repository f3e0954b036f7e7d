import { json } from 'node:stream/consumers'

export interface HealthReply {
  isOk: boolean
  status: number
  /** Null when it is not JSON. */
  body: unknown
}

interface HealthRequest {
  /** The platform ignores one that it does not accept. */
  token?: string | undefined
  signal?: AbortSignal
}

/** Not with `fetch`: it loads slower, and the second response costs 110 ms to optimise its WASM parser. */
export async function requestHealth(
  url: string,
  path: '/health' | '/health/services',
  { token, signal }: HealthRequest = {},
): Promise<HealthReply> {
  const { get } = url.startsWith('https:') ? await import('node:https') : await import('node:http')
  return new Promise((resolve, reject) => {
    const headers = token !== undefined && sendable.test(token) ? { authorization: `Bearer ${token}` } : {}
    const request = get(url + path, { agent: false, headers, ...(signal && { signal }) }, reply => {
      const status = reply.statusCode ?? 0
      const answer = (body: unknown) => resolve({ isOk: status >= 200 && status < 300, status, body })
      json(reply).then(answer, () => answer(null))
    })
    request.on('error', reject)
  })
}

/** Node refuses to send a header with other characters. */
const sendable = /^[\x21-\x7e]+$/

/** Never rejects. */
export const serverVersion = (url: string, signal: AbortSignal): Promise<string | null> =>
  requestHealth(url, '/health', { signal })
    .then(({ body }) => versionIn(body))
    .catch(() => null)

export const versionIn = (body: unknown): string | null => textIn(body, 'version')

export function textIn(body: unknown, field: string): string | null {
  if (typeof body !== 'object' || body === null) return null
  const value: unknown = Reflect.get(body, field)
  return typeof value === 'string' ? value : null
}
