// Where a Redis server is, and as whom to speak to it.

export interface RedisAddress {
  host: string
  port: number
  isTls: boolean
  /** Without one, nothing is asked for. */
  login: { user: string; password: string } | undefined
}

/** Reads `redis://user:password@host:port`, or `rediss://` for TLS; a password without a user is the default user's. */
export function parseRedisUrl(text: string): RedisAddress {
  const url = new URL(text)
  const password = decodeURIComponent(url.password)
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port || 6379),
    isTls: url.protocol === 'rediss:',
    login: password === '' ? undefined : { user: decodeURIComponent(url.username) || 'default', password },
  }
}
