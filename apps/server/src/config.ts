// The environment, read once into a frozen object. Nothing else in the server looks at it.
import { readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { type Encryption, encryptions } from '@plinth/contract/email.ts'
import {
  isAddress,
  isHost,
  type SmtpServer,
  usualSender,
  usualWay,
} from '#src/kernel/outbound/smtp-server.ts'
import { parseDatabaseUrl, type ServerAddress } from '#src/kernel/postgres/server-address.ts'

export interface Config {
  host: string
  port: number
  /** As configured; the address listened on when absent. */
  baseUrl: string | undefined
  dataDir: string
  adminToken: string | undefined
  controlPlaneSecret: string | undefined
  external: { address: ServerAddress; database: string } | undefined
  extensionDir: string | undefined
  trustedProxies: readonly string[]
  /** Addresses and CIDRs that outbound calls may reach although they are not public. */
  outboundAllow: readonly string[]
  rateLimits: { anon: number; authenticated: number; service_role: number }
  statementTimeoutMs: { anon: number; others: number }
  restMaxRows: number
  poolSize: number
  maxConnections: number
  auditRetentionDays: number
  /** Where the caches of projects live; in this process when absent. */
  redisUrl: string | undefined
  /** How long a scheduled job may run. */
  cronTimeoutMs: number
  /** For projects that have no SMTP server of their own. */
  smtp: SmtpServer | undefined
  logLevel: string
  shutdownGraceMs: number
}

interface Setting {
  name: string
  /** As shown in docs/configuration.md. */
  default: string
  meaning: string
}

/** Every setting with its default and one sentence; docs/configuration.md is written from this table. */
export const settings = [
  { name: 'PLATFORM_HOST', default: '127.0.0.1', meaning: 'Address to listen on.' },
  { name: 'PLATFORM_PORT', default: '39001', meaning: 'Port to listen on; 0 takes a free one.' },
  {
    name: 'PLATFORM_BASE_URL',
    default: 'http://<host>:<port>',
    meaning: 'The URL clients reach the platform by, when a proxy stands in front of it.',
  },
  {
    name: 'PLATFORM_DATA_DIR',
    default: '.plinth/data',
    meaning:
      'Where the embedded database and the generated secrets live, relative to the working directory. Run as root below a directory the database user cannot enter, the database itself is kept in /var/lib/plinth.',
  },
  {
    name: 'PLATFORM_ADMIN_TOKEN',
    default: 'generated with the embedded database, else unset',
    meaning: 'Root token of the management API, at least 32 characters; unset disables it.',
  },
  {
    name: 'CONTROL_PLANE_SECRET',
    default: 'generated with the embedded database, else required',
    meaning:
      'Keys every stored secret, platform token and session, at least 32 characters. It must never change: what it sealed cannot be opened with another.',
  },
  {
    name: 'DATABASE_URL',
    default: 'unset: the embedded Postgres',
    meaning:
      'A Postgres server (15 or newer) to use instead, as a superuser: postgres://user:password@host:port/database?sslmode=verify-full. The database named is the control database (`plinth` when none or `postgres` is named) and is created if absent.',
  },
  {
    name: 'PLATFORM_EXTENSION_DIR',
    default: 'none',
    meaning:
      'Further extensions for the embedded Postgres, such as pgvector: control and SQL files in its subdirectory `extension`, libraries in `lib`. Projects can create those whose control file says `trusted = true`.',
  },
  {
    name: 'PLATFORM_TRUSTED_PROXIES',
    default: 'none',
    meaning:
      'Comma-separated addresses or CIDRs of proxies whose X-Forwarded-For and X-Request-Id are believed.',
  },
  {
    name: 'PLATFORM_OUTBOUND_ALLOW',
    default: 'none',
    meaning:
      'Comma-separated addresses or CIDRs that are not public and that calls to sign-in providers may reach all the same, such as an intranet or a test server.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_ANON',
    default: '100',
    meaning: 'Requests per project and 60 seconds with the anon key; 0 lifts the limit.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_AUTHENTICATED',
    default: '1000',
    meaning: 'Requests per project and 60 seconds of signed-in users; 0 lifts the limit.',
  },
  {
    name: 'PLATFORM_RATE_LIMIT_SERVICE_ROLE',
    default: '5000',
    meaning: 'Requests per project and 60 seconds with the service_role key; 0 lifts the limit.',
  },
  {
    name: 'PLATFORM_STATEMENT_TIMEOUT_MS',
    default: '8000',
    meaning: 'How long a statement of a data-plane caller may run.',
  },
  { name: 'PLATFORM_STATEMENT_TIMEOUT_ANON_MS', default: '3000', meaning: 'The same for anonymous callers.' },
  {
    name: 'PLATFORM_REST_MAX_ROWS',
    default: '1000',
    meaning: 'Rows a read returns at most, whatever its limit; 0 lifts the cap.',
  },
  {
    name: 'PLATFORM_POOL_SIZE',
    default: '10',
    meaning:
      'Statements of one project and login that may run at once, each on a connection of its own; quick ones share two further connections.',
  },
  {
    name: 'PLATFORM_MAX_DB_CONNECTIONS',
    default: '200',
    meaning: 'Data-plane database connections of all projects together.',
  },
  {
    name: 'PLATFORM_AUDIT_RETENTION_DAYS',
    default: '90',
    meaning: 'Age in days past which `audit prune` deletes entries.',
  },
  {
    name: 'REDIS_URL',
    default: 'unset: caches are kept in this process',
    meaning:
      'A Redis (7 or newer) or Valkey server for the caches of projects, as a user who may manage ACL users: redis://user:password@host:port, or rediss:// for TLS. Needed once more than one process runs the platform.',
  },
  {
    name: 'PLATFORM_CRON_TIMEOUT_MS',
    default: '600000',
    meaning: 'How long a run of a scheduled job may take; then its database session is ended.',
  },
  {
    name: 'SMTP_HOST',
    default: 'none',
    meaning:
      'The SMTP server for the mail of projects that have none of their own. Without any, mail is kept in the local catch-all.',
  },
  {
    name: 'SMTP_PORT',
    default: '587, with tls 465, with none 1025',
    meaning: 'Its port.',
  },
  { name: 'SMTP_USERNAME', default: 'none', meaning: 'The login; without one, mail is sent without.' },
  { name: 'SMTP_PASSWORD', default: 'none', meaning: 'The password of the login.' },
  {
    name: 'SMTP_FROM_EMAIL',
    default: 'SMTP_USERNAME if it is an address, else no-reply@SMTP_HOST',
    meaning: 'The sender’s address.',
  },
  { name: 'SMTP_FROM_NAME', default: 'none', meaning: 'The sender’s name.' },
  {
    name: 'SMTP_ENCRYPTION',
    default: 'none on this machine, tls on port 465, else starttls',
    meaning: 'none, starttls or tls. Certificates are verified.',
  },
  { name: 'PLATFORM_LOG_LEVEL', default: 'info', meaning: 'fatal, error, warn, info, debug or silent.' },
  {
    name: 'PLATFORM_SHUTDOWN_GRACE_MS',
    default: '10000',
    meaning: 'How long requests in flight may take to finish once the platform is told to stop.',
  },
] as const satisfies readonly Setting[]

type Name = (typeof settings)[number]['name']
type Environment = Readonly<Record<string, string | undefined>>

/** A setting that cannot be used; its message is the one sentence the operator sees. */
export class ConfigError extends Error {}

/** The process's environment over the `.env` file of the working directory. */
export function readEnvironment(directory = process.cwd()): Environment {
  let file: Environment = {}
  try {
    file = parseEnv(readFileSync(resolve(directory, '.env'), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  // biome-ignore lint/style/noProcessEnv: the one place where the environment is read
  return { ...file, ...process.env }
}

export function readConfig(environment: Environment): Config {
  const text = (name: Name) => environment[name]?.trim() || undefined
  const integer = (name: Name, fallback: number, low: number, high = Number.MAX_SAFE_INTEGER) => {
    const given = text(name)
    if (given === undefined) return fallback
    if (!/^\d+$/.test(given) || Number(given) < low || Number(given) > high)
      throw new ConfigError(
        `${name} must be a whole number from ${low}${high < 2 ** 40 ? ` to ${high}` : ''}, not "${given}".`,
      )
    return Number(given)
  }
  const external = readDatabaseUrl(text('DATABASE_URL'))
  const controlPlaneSecret = readSecret('CONTROL_PLANE_SECRET', text('CONTROL_PLANE_SECRET'))
  if (external && !controlPlaneSecret)
    throw new ConfigError(
      'CONTROL_PLANE_SECRET must be set when DATABASE_URL is: what it seals has to outlive this machine.',
    )
  return Object.freeze({
    host: text('PLATFORM_HOST') ?? '127.0.0.1',
    port: integer('PLATFORM_PORT', 39001, 0, 65535),
    baseUrl: readBaseUrl(text('PLATFORM_BASE_URL')),
    dataDir: resolve(text('PLATFORM_DATA_DIR') ?? '.plinth/data'),
    adminToken: readSecret('PLATFORM_ADMIN_TOKEN', text('PLATFORM_ADMIN_TOKEN')),
    controlPlaneSecret,
    external,
    extensionDir: readExtensionDir(text('PLATFORM_EXTENSION_DIR'), external !== undefined),
    trustedProxies: readRanges('PLATFORM_TRUSTED_PROXIES', text('PLATFORM_TRUSTED_PROXIES')),
    outboundAllow: readRanges('PLATFORM_OUTBOUND_ALLOW', text('PLATFORM_OUTBOUND_ALLOW')),
    rateLimits: Object.freeze({
      anon: integer('PLATFORM_RATE_LIMIT_ANON', 100, 0),
      authenticated: integer('PLATFORM_RATE_LIMIT_AUTHENTICATED', 1000, 0),
      service_role: integer('PLATFORM_RATE_LIMIT_SERVICE_ROLE', 5000, 0),
    }),
    statementTimeoutMs: Object.freeze({
      anon: integer('PLATFORM_STATEMENT_TIMEOUT_ANON_MS', 3000, 1, 2 ** 31 - 1),
      others: integer('PLATFORM_STATEMENT_TIMEOUT_MS', 8000, 1, 2 ** 31 - 1),
    }),
    restMaxRows: integer('PLATFORM_REST_MAX_ROWS', 1000, 0),
    poolSize: integer('PLATFORM_POOL_SIZE', 10, 1, 1000),
    maxConnections: integer('PLATFORM_MAX_DB_CONNECTIONS', 200, 4, 10_000),
    auditRetentionDays: integer('PLATFORM_AUDIT_RETENTION_DAYS', 90, 1, 36_500),
    redisUrl: readRedisUrl(text('REDIS_URL')),
    cronTimeoutMs: integer('PLATFORM_CRON_TIMEOUT_MS', 600_000, 1, 2 ** 31 - 1),
    smtp: readSmtp(text, () => integer('SMTP_PORT', 0, 1, 65_535)),
    logLevel: readLevel(text('PLATFORM_LOG_LEVEL')),
    shutdownGraceMs: integer('PLATFORM_SHUTDOWN_GRACE_MS', 10_000, 0, 600_000),
  })
}

const knownSecrets =
  /change.?me|your.?super.?secret|super-secret-jwt-token|password|example|placeholder|default|insecure/i

function readSecret(name: Name, secret: string | undefined): string | undefined {
  if (secret === undefined) return
  if (secret.length < 32)
    throw new ConfigError(`${name} must have at least 32 characters; make one with: openssl rand -hex 32`)
  if (knownSecrets.test(secret) || new Set(secret).size < 8)
    throw new ConfigError(`${name} is one that others know or can guess; make one with: openssl rand -hex 32`)
  return secret
}

function readDatabaseUrl(url: string | undefined): Config['external'] {
  if (!url) return
  try {
    const { address, database } = parseDatabaseUrl(url)
    return { address, database: database === undefined || database === 'postgres' ? 'plinth' : database }
  } catch (error) {
    throw new ConfigError(`DATABASE_URL is not usable: ${(error as Error).message}.`)
  }
}

function readExtensionDir(directory: string | undefined, isExternal: boolean): string | undefined {
  if (directory === undefined) return
  if (isExternal)
    throw new ConfigError(
      'PLATFORM_EXTENSION_DIR is for the embedded Postgres: install the extensions on the server of DATABASE_URL.',
    )
  if (directory.includes(':'))
    throw new ConfigError(`PLATFORM_EXTENSION_DIR cannot hold a colon, as "${directory}" does.`)
  return resolve(directory)
}

function readBaseUrl(url: string | undefined): string | undefined {
  if (!url) return
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new ConfigError(`PLATFORM_BASE_URL must be an http or https URL, not "${url}".`)
  return url.replace(/\/+$/, '')
}

/** Its text holds a password: no message repeats it. */
function readRedisUrl(url: string | undefined): string | undefined {
  if (!url) return
  const parsed = URL.parse(url)
  if (!parsed || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '')
    throw new ConfigError(
      'REDIS_URL must be of the form redis://user:password@host:port (rediss:// for TLS).',
    )
  if (parsed.pathname.length > 1 && parsed.pathname !== '/0')
    throw new ConfigError('REDIS_URL must name no database but 0: others cannot be told apart by its users.')
  return url
}

function readRanges(name: Name, list: string | undefined): string[] {
  const ranges = (list ?? '')
    .split(',')
    .map(each => each.trim())
    .filter(Boolean)
  const wrong = ranges.find(each => !isAddressOrRange(each))
  if (wrong) throw new ConfigError(`${name} must list addresses or CIDRs, not "${wrong}".`)
  return ranges
}

function isAddressOrRange(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  if (bits === undefined) return true
  try {
    new BlockList().addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6')
    return /^\d+$/.test(bits)
  } catch {
    return false
  }
}

function readSmtp(text: (name: Name) => string | undefined, portGiven: () => number): SmtpServer | undefined {
  const host = text('SMTP_HOST')
  if (host === undefined) {
    const stray = settings.find(({ name }) => name.startsWith('SMTP_') && text(name) !== undefined)
    if (stray) throw new ConfigError(`${stray.name} is of no use without SMTP_HOST; set that, too.`)
    return
  }
  if (!isHost(host)) throw new ConfigError(`SMTP_HOST must be a host name or an address, not "${host}".`)
  const encryption = text('SMTP_ENCRYPTION')
  if (encryption !== undefined && !encryptions.includes(encryption as Encryption))
    throw new ConfigError(`SMTP_ENCRYPTION must be one of ${encryptions.join(', ')}, not "${encryption}".`)
  const [user, password] = [text('SMTP_USERNAME'), text('SMTP_PASSWORD')]
  if (password !== undefined && user === undefined)
    throw new ConfigError('SMTP_PASSWORD is of no use without SMTP_USERNAME; set that, too.')
  const address = text('SMTP_FROM_EMAIL') ?? usualSender(host, user ?? '')
  if (!isAddress(address)) throw new ConfigError(`SMTP_FROM_EMAIL must be an address, not "${address}".`)
  const name = text('SMTP_FROM_NAME') ?? ''
  if (/\p{Cc}/u.test(name)) throw new ConfigError('SMTP_FROM_NAME must be a single line of text.')
  return Object.freeze({
    host,
    ...usualWay(host, portGiven() || undefined, encryption as Encryption | undefined),
    login: user === undefined ? undefined : { user, password: password ?? '' },
    from: { name, address },
  })
}

function readLevel(level: string | undefined): string {
  if (level === undefined) return 'info'
  const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent']
  if (!levels.includes(level))
    throw new ConfigError(`PLATFORM_LOG_LEVEL must be one of ${levels.join(', ')}, not "${level}".`)
  return level
}
