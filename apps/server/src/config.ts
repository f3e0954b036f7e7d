// Reads the environment once into a frozen object. No other file of the server reads it.
import { readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { type Encryption, encryptions } from '@plinth/contract/email.ts'
import type { S3Settings } from '#src/kernel/objects/s3.ts'
import {
  defaultSender,
  isAddress,
  isHost,
  type SmtpServer,
  smtpDefaults,
} from '#src/kernel/outbound/smtp-server.ts'
import { parseDatabaseUrl, type ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { type Name, settings } from '#src/settings.ts'

export interface Config {
  host: string
  port: number
  /** The configured URL. Defaults to the listen address. */
  baseUrl: string | undefined
  dataDir: string
  adminToken: string | undefined
  controlPlaneSecret: string | undefined
  external: { address: ServerAddress; database: string } | undefined
  extensionDir: string | undefined
  trustedProxies: readonly string[]
  /** Non-public addresses and CIDRs that outbound calls may reach. */
  outboundAllow: readonly string[]
  rateLimits: { anon: number; authenticated: number; service_role: number }
  statementTimeoutMs: { anon: number; others: number }
  restMaxRows: number
  poolSize: number
  maxConnections: number
  graphql: {
    maxDocumentBytes: number
    maxDepth: number
    maxFields: number
    maxAliases: number
    maxComplexity: number
  }
  realtime: { maxListeners: number; maxConnections: number; poolSize: number }
  auditRetentionDays: number
  logRetentionDays: number
  functions: {
    isolation: 'per-project' | 'per-invocation' | 'shared'
    /** The internal port of the runtime. */
    port: number
    maxWorkers: number
    idleMs: number
    requestTimeoutMs: number
    startTimeoutMs: number
    backoff: { startMs: number; capMs: number; resetMs: number }
    /** The npm registry: its URL, or undefined for the default of Deno, and a file of certificates to trust as well. */
    registry: { url: string | undefined; certificates: string | undefined }
    /** Sentences for the operator. */
    warnings: readonly string[]
  }
  /** Writes are rejected below this free disk space. 0 disables the check. */
  diskReserveMb: number
  /** The Redis for caches. Without it, caches are in this process. */
  redisUrl: string | undefined
  /** Timeout of scheduled jobs. */
  cronTimeoutMs: number
  /** The default SMTP server of projects. */
  smtp: SmtpServer | undefined
  /** The object store for files. Defaults to the data directory. */
  s3: S3Settings | undefined
  logLevel: string
  shutdownGraceMs: number
}

type Environment = Readonly<Record<string, string | undefined>>

/** An invalid setting. The operator sees the message as a single sentence. */
export class ConfigError extends Error {}

/** Merges the environment with the `.env` file of the working directory. The environment takes precedence. */
export function readEnvironment(directory = process.cwd()): Environment {
  let file: Environment = {}
  try {
    file = parseEnv(readFileSync(resolve(directory, '.env'), 'utf8'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  // biome-ignore lint/style/noProcessEnv: the only place where the environment is read
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
      'CONTROL_PLANE_SECRET must be set when DATABASE_URL is: it encrypts secrets in that database.',
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
    realtime: Object.freeze({
      maxListeners: integer('PLATFORM_REALTIME_MAX_LISTENERS', 200, 1, 10_000),
      maxConnections: integer('PLATFORM_REALTIME_MAX_DB_CONNECTIONS', 20, 1, 10_000),
      poolSize: integer('PLATFORM_REALTIME_QUERY_POOL_SIZE', 4, 1, 1000),
    }),
    graphql: Object.freeze({
      maxDocumentBytes: integer('PLATFORM_GRAPHQL_MAX_DOCUMENT_BYTES', 50_000, 1000, 1_000_000),
      maxDepth: integer('PLATFORM_GRAPHQL_MAX_DEPTH', 30, 15, 100),
      maxFields: integer('PLATFORM_GRAPHQL_MAX_FIELDS', 1000, 100, 10_000),
      maxAliases: integer('PLATFORM_GRAPHQL_MAX_ALIASES', 100, 0, 10_000),
      maxComplexity: integer('PLATFORM_GRAPHQL_MAX_COMPLEXITY', 1_000_000, 1),
    }),
    auditRetentionDays: integer('PLATFORM_AUDIT_RETENTION_DAYS', 90, 1, 36_500),
    logRetentionDays: integer('PLATFORM_LOG_RETENTION_DAYS', 7, 1, 36_500),
    functions: readFunctions(text, integer, environment['NODE_EXTRA_CA_CERTS']),
    diskReserveMb: integer('PLATFORM_DISK_RESERVE_MB', 1024, 0),
    redisUrl: readRedisUrl(text('REDIS_URL')),
    cronTimeoutMs: integer('PLATFORM_CRON_TIMEOUT_MS', 600_000, 1, 2 ** 31 - 1),
    smtp: readSmtp(text, () => integer('SMTP_PORT', 0, 1, 65_535)),
    s3: readS3(text),
    logLevel: readLevel(text('PLATFORM_LOG_LEVEL')),
    shutdownGraceMs: integer('PLATFORM_SHUTDOWN_GRACE_MS', 10_000, 0, 600_000),
  })
}

type ReadInteger = (name: Name, fallback: number, low: number, high?: number) => number

const maxMs = 2 ** 31 - 1
const noIsolation =
  'RUNTIME_SUPERVISOR is off: the functions of all projects run in one process, without isolation from each other.'

/** Node trusts the certificates of the given file, so loading packages does too. */
function readFunctions(
  text: (name: Name) => string | undefined,
  integer: ReadInteger,
  certificates: string | undefined,
): Config['functions'] {
  const warnings: string[] = []
  const given = text('PLATFORM_EDGE_ISOLATION') ?? 'per-project'
  const isKnown = given === 'per-project' || given === 'per-invocation'
  if (!isKnown)
    warnings.push(
      `PLATFORM_EDGE_ISOLATION must be per-project or per-invocation, not "${given}"; it is taken as per-project.`,
    )
  const supervisor = text('RUNTIME_SUPERVISOR') ?? 'on'
  if (supervisor !== 'on' && supervisor !== 'off')
    throw new ConfigError(`RUNTIME_SUPERVISOR must be on or off, not "${supervisor}".`)
  if (supervisor === 'off') warnings.push(noIsolation)
  return Object.freeze({
    isolation: supervisor === 'off' ? 'shared' : isKnown ? given : 'per-project',
    port: integer('RUNTIME_PORT', 8082, 0, 65_535),
    maxWorkers: integer('RUNTIME_MAX_WORKERS', 16, 1, 1000),
    idleMs: integer('RUNTIME_WORKER_IDLE_MS', 300_000, 1, maxMs),
    requestTimeoutMs: integer('RUNTIME_REQUEST_TIMEOUT_MS', 30_000, 1, maxMs),
    startTimeoutMs: integer('RUNTIME_WORKER_START_TIMEOUT_MS', 10_000, 1, maxMs),
    backoff: {
      startMs: integer('RUNTIME_WORKER_BACKOFF_START_MS', 1000, 1, maxMs),
      capMs: integer('RUNTIME_WORKER_BACKOFF_CAP_MS', 30_000, 1, maxMs),
      resetMs: integer('RUNTIME_WORKER_HEALTHY_RESET_MS', 60_000, 1, maxMs),
    },
    registry: { url: readRegistry(text('PLATFORM_NPM_REGISTRY')), certificates },
    warnings,
  })
}

function readRegistry(url: string | undefined): string | undefined {
  if (!url) return
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new ConfigError('PLATFORM_NPM_REGISTRY must be an http or https URL.')
  return url
}

const knownSecrets =
  /change.?me|your.?super.?secret|super-secret-jwt-token|password|example|placeholder|default|insecure/i

function readSecret(name: Name, secret: string | undefined): string | undefined {
  if (secret === undefined) return
  if (secret.length < 32)
    throw new ConfigError(`${name} must have at least 32 characters; make one with: openssl rand -hex 32`)
  if (knownSecrets.test(secret) || new Set(secret).size < 8)
    throw new ConfigError(`${name} is a known default or easy to guess; make one with: openssl rand -hex 32`)
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
    throw new ConfigError(`PLATFORM_EXTENSION_DIR must not contain a colon, as "${directory}" does.`)
  return resolve(directory)
}

function readBaseUrl(url: string | undefined): string | undefined {
  if (!url) return
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new ConfigError(`PLATFORM_BASE_URL must be an http or https URL, not "${url}".`)
  return url.replace(/\/+$/, '')
}

/** The value contains a password, so no message repeats it. */
function readRedisUrl(url: string | undefined): string | undefined {
  if (!url) return
  const parsed = URL.parse(url)
  if (!parsed || !/^rediss?:$/.test(parsed.protocol) || parsed.hostname === '')
    throw new ConfigError(
      'REDIS_URL must be of the form redis://user:password@host:port (rediss:// for TLS).',
    )
  if (parsed.pathname.length > 1 && parsed.pathname !== '/0')
    throw new ConfigError(
      'REDIS_URL must use database 0: users of Redis cannot be restricted to one database.',
    )
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
    if (stray) throw new ConfigError(`${stray.name} has no effect without SMTP_HOST; set that too.`)
    return
  }
  if (!isHost(host)) throw new ConfigError(`SMTP_HOST must be a host name or an address, not "${host}".`)
  const encryption = text('SMTP_ENCRYPTION')
  if (encryption !== undefined && !encryptions.includes(encryption as Encryption))
    throw new ConfigError(`SMTP_ENCRYPTION must be one of ${encryptions.join(', ')}, not "${encryption}".`)
  const [user, password] = [text('SMTP_USERNAME'), text('SMTP_PASSWORD')]
  if (password !== undefined && user === undefined)
    throw new ConfigError('SMTP_PASSWORD has no effect without SMTP_USERNAME; set that too.')
  const address = text('SMTP_FROM_EMAIL') ?? defaultSender(host, user ?? '')
  if (!isAddress(address)) throw new ConfigError(`SMTP_FROM_EMAIL must be an address, not "${address}".`)
  const name = text('SMTP_FROM_NAME') ?? ''
  if (/\p{Cc}/u.test(name)) throw new ConfigError('SMTP_FROM_NAME must be a single line of text.')
  return Object.freeze({
    host,
    ...smtpDefaults(host, portGiven() || undefined, encryption as Encryption | undefined),
    login: user === undefined ? undefined : { user, password: password ?? '' },
    from: { name, address },
  })
}

function readS3(text: (name: Name) => string | undefined): S3Settings | undefined {
  const bucket = text('S3_BUCKET')
  if (bucket === undefined) {
    const stray = settings.find(({ name }) => name.startsWith('S3_') && text(name) !== undefined)
    if (stray) throw new ConfigError(`${stray.name} has no effect without S3_BUCKET; set that too.`)
    return
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket))
    throw new ConfigError(
      `S3_BUCKET must be 3 to 63 lowercase letters, digits, dots and hyphens, not "${bucket}".`,
    )
  const required = (name: Name) => {
    const given = text(name)
    if (given === undefined) throw new ConfigError(`${name} must be set when S3_BUCKET is.`)
    return given
  }
  const endpoint = readS3Endpoint(text('S3_ENDPOINT'))
  const region = text('S3_REGION') ?? 'us-east-1'
  if (!/^[a-z0-9-]+$/i.test(region))
    throw new ConfigError(`S3_REGION must be the name of a region, not "${region}".`)
  const style = text('S3_FORCE_PATH_STYLE') ?? String(endpoint !== undefined)
  if (style !== 'true' && style !== 'false')
    throw new ConfigError(`S3_FORCE_PATH_STYLE must be true or false, not "${style}".`)
  return Object.freeze({
    endpoint,
    bucket,
    accessKeyId: required('S3_ACCESS_KEY_ID'),
    secretAccessKey: required('S3_SECRET_ACCESS_KEY'),
    region,
    forcePathStyle: style === 'true',
  })
}

/** The value may contain a password by mistake, so no message repeats it. */
function readS3Endpoint(url: string | undefined): string | undefined {
  if (url === undefined) return
  const parsed = URL.parse(url)
  if (!parsed || !/^https?:$/.test(parsed.protocol))
    throw new ConfigError('S3_ENDPOINT must be an http or https URL, such as https://s3.example.com.')
  if (parsed.username || parsed.password || parsed.search || parsed.hash)
    throw new ConfigError(
      'S3_ENDPOINT must not contain a user, password or query: the keys have their own settings.',
    )
  return url
}

function readLevel(level: string | undefined): string {
  if (level === undefined) return 'info'
  const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent']
  if (!levels.includes(level))
    throw new ConfigError(`PLATFORM_LOG_LEVEL must be one of ${levels.join(', ')}, not "${level}".`)
  return level
}
