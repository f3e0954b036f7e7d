// Reads the environment once into a frozen object. No other file of the server reads it.
import { readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { ConfigError } from '#src/config-error.ts'
import {
  type ExternalDatabase,
  type PoolerSettings,
  readBackups,
  readDatabaseUrl,
  readPooler,
  readRedisUrl,
  readReplica,
  readS3,
  readSmtp,
} from '#src/config-servers.ts'
import type { S3Settings } from '#src/kernel/objects/s3.ts'
import type { SmtpServer } from '#src/kernel/outbound/smtp-server.ts'
import type { Endpoint } from '#src/kernel/postgres/server-address.ts'
import type { Name } from '#src/settings.ts'

export interface Config {
  host: string
  port: number
  /** The configured URL. Defaults to the listen address. */
  baseUrl: string | undefined
  dataDir: string
  adminToken: string | undefined
  controlPlaneSecret: string | undefined
  /** The token for reading /metrics from anywhere. */
  metricsToken: string | undefined
  external: ExternalDatabase | undefined
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
  webhooks: {
    /** Attempts of a delivery before it becomes a dead letter. */
    maxRetries: number
    /** Timeout of an attempt. */
    timeoutMs: number
    /** The pause after the first failed attempt. */
    retryBaseDelayMs: number
    /** Attempts of this node at once. */
    maxConcurrent: number
    deadLetterRetentionDays: number
    /** Of waiting deliveries of a project, and of its dead letters as well. */
    maxStoredMb: number
  }
  /** Writes are rejected below this free disk space. 0 disables the check. */
  diskReserveMb: number
  /** The Redis for caches. Without it, caches are in this process. */
  redisUrl: string | undefined
  /** PgBouncer in front of Postgres. */
  pooler: PoolerSettings | undefined
  /** A read replica of Postgres, as applications reach it. */
  replica: Endpoint | undefined
  /** Timeout of scheduled jobs. */
  cronTimeoutMs: number
  /** The default SMTP server of projects. */
  smtp: SmtpServer | undefined
  /** The object store for files. Defaults to the data directory. */
  s3: S3Settings | undefined
  /** Where backups are stored. By default in the data directory. */
  backups: { directory: string | undefined; s3: S3Settings | undefined }
  /** Whether a start upgrades databases of an older release by itself. */
  upgrade: 'auto' | 'manual'
  /** Recovery to a time, of the embedded database. */
  pitr: { isOn: boolean; days: number }
  logLevel: string
  shutdownGraceMs: number
}

type Environment = Readonly<Record<string, string | undefined>>

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
  const duration = (name: Name, fallbackMs: number) => readDuration(name, text(name), fallbackMs)
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
    metricsToken: readSecret('PLATFORM_METRICS_TOKEN', text('PLATFORM_METRICS_TOKEN')),
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
    webhooks: Object.freeze({
      maxRetries: integer('WEBHOOK_MAX_RETRIES', 5, 1, 100),
      timeoutMs: duration('WEBHOOK_TIMEOUT', 30_000),
      retryBaseDelayMs: duration('WEBHOOK_RETRY_BASE_DELAY', 10_000),
      maxConcurrent: integer('WEBHOOK_MAX_CONCURRENT', 10, 1, 1000),
      deadLetterRetentionDays: integer('PLATFORM_DLQ_RETENTION_DAYS', 30, 1, 36_500),
      maxStoredMb: integer('WEBHOOK_MAX_STORED_MB', 256, 1),
    }),
    diskReserveMb: integer('PLATFORM_DISK_RESERVE_MB', 1024, 0),
    redisUrl: readRedisUrl(text('REDIS_URL')),
    pooler: readPooler(text('PLATFORM_POOLER_URL'), text('PLATFORM_POOLER_USERLIST')),
    replica: readReplica(text('PLATFORM_REPLICA_URL')),
    cronTimeoutMs: integer('PLATFORM_CRON_TIMEOUT_MS', 600_000, 1, 2 ** 31 - 1),
    smtp: readSmtp(text, () => integer('SMTP_PORT', 0, 1, 65_535)),
    s3: readS3(text),
    backups: readBackups(text),
    upgrade: readUpgrade(text('PLATFORM_UPGRADE'), external !== undefined),
    pitr: Object.freeze({
      isOn: readSwitch('PLATFORM_PITR', text('PLATFORM_PITR')),
      days: integer('PLATFORM_PITR_DAYS', 7, 1, 3650),
    }),
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

const unitsMs = { ms: 1, s: 1000, m: 60_000 }
const maxDurationMs = 3_600_000

/** Seconds, or a number with a unit: 30, 30s, 30 s, 500ms, 2m. */
function readDuration(name: Name, given: string | undefined, fallbackMs: number): number {
  if (given === undefined) return fallbackMs
  const [, count, unit = 's'] = /^(\d+)\s*(ms|s|m)?$/.exec(given) ?? []
  const ms = Number(count) * unitsMs[unit as keyof typeof unitsMs]
  if (!(ms >= 1 && ms <= maxDurationMs))
    throw new ConfigError(`${name} must be a time up to an hour, such as 30s, 500ms or 2m, not "${given}".`)
  return ms
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

function readUpgrade(given: string | undefined, isExternal: boolean): Config['upgrade'] {
  if (given === undefined) return isExternal ? 'manual' : 'auto'
  if (given !== 'auto' && given !== 'manual')
    throw new ConfigError(`PLATFORM_UPGRADE must be auto or manual, not "${given}".`)
  return given
}

function readSwitch(name: Name, given = 'off'): boolean {
  if (given !== 'on' && given !== 'off') throw new ConfigError(`${name} must be on or off, not "${given}".`)
  return given === 'on'
}

function readLevel(level: string | undefined): string {
  if (level === undefined) return 'info'
  const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'silent']
  if (!levels.includes(level))
    throw new ConfigError(`PLATFORM_LOG_LEVEL must be one of ${levels.join(', ')}, not "${level}".`)
  return level
}
