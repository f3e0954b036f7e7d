// The address and login of a Redis server.

export interface RedisAddress {
  host: string
  port: number
  isTls: boolean
  /** Without it, the client does not authenticate. */
  login: { user: string; password: string } | undefined
}

/** Parses `redis://user:password@host:port`, or `rediss://` for TLS. A password without a user is for the user `default`. */
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
