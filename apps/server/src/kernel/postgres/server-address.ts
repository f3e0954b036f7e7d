// The address and TLS options of a Postgres server, for both clients: `pg` and the wire.
import { readFileSync } from 'node:fs'

/** Where a server is, without a login. */
export interface Endpoint {
  /** A host name or address, or the directory of a unix socket. */
  host: string
  port: number
  tls: Tls | undefined
}
export interface ServerAddress extends Endpoint {
  user: string
  password: string
}
export interface Tls {
  rejectUnauthorized: boolean
  servername?: string
  ca?: string
}

/** Parses `postgres://user:password@host:port/database?sslmode=…`. */
export function parseDatabaseUrl(text: string): { address: ServerAddress; database: string | undefined } {
  const url = new URL(text)
  if (!/^postgres(ql)?:$/.test(url.protocol))
    throw new Error('it must start with postgres:// or postgresql://')
  const host = decodeURIComponent(url.hostname) || (url.searchParams.get('host') ?? '')
  if (!host) throw new Error('it must name a host')
  return {
    address: {
      host,
      port: Number(url.port || 5432),
      user: decodeURIComponent(url.username) || 'postgres',
      password: decodeURIComponent(url.password),
      tls: tls(url, host),
    },
    database: decodeURIComponent(url.pathname.slice(1)) || undefined,
  }
}

/** The inverse. The directory of a unix socket is written as the host. */
export function formatDatabaseUrl(
  { host, port, user, password, tls }: ServerAddress,
  database: string,
): string {
  const isBareAddress = host.includes(':') && !host.startsWith('[')
  const place = host.startsWith('/') ? encodeURIComponent(host) : isBareAddress ? `[${host}]` : host
  const checks = tls?.servername ? 'verify-full' : 'verify-ca'
  const query = tls ? `?sslmode=${tls.rejectUnauthorized ? checks : 'require'}` : ''
  const credential = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`
  return `postgres://${credential}@${place}:${port}/${encodeURIComponent(database)}${query}`
}

function tls(url: URL, host: string): Tls | undefined {
  const mode = url.searchParams.get('sslmode') ?? 'disable'
  const rootCertificate = url.searchParams.get('sslrootcert')
  if (mode === 'disable') return
  if (!['require', 'verify-ca', 'verify-full'].includes(mode))
    throw new Error('its sslmode must be disable, require, verify-ca or verify-full')
  return {
    rejectUnauthorized: mode !== 'require',
    ...(mode === 'verify-full' && { servername: host }),
    ...(rootCertificate && { ca: readFileSync(rootCertificate, 'utf8') }),
  }
}
