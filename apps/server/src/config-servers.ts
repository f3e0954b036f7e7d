// Settings of other servers: Postgres, its pooler and its replica, Redis, SMTP and S3.
import { resolve } from 'node:path'
import { type Encryption, encryptions } from '@plinth/contract/email.ts'
import { ConfigError } from '#src/config-error.ts'
import type { S3Settings } from '#src/kernel/objects/s3.ts'
import {
  defaultSender,
  isAddress,
  isHost,
  type SmtpServer,
  smtpDefaults,
} from '#src/kernel/outbound/smtp-server.ts'
import { type Endpoint, parseDatabaseUrl, type ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { type Name, settings } from '#src/settings.ts'

export interface ExternalDatabase {
  address: ServerAddress
  database: string
}

export function readDatabaseUrl(url: string | undefined): ExternalDatabase | undefined {
  if (!url) return
  try {
    const { address, database } = parseDatabaseUrl(url)
    return { address, database: database === undefined || database === 'postgres' ? 'plinth' : database }
  } catch (error) {
    throw new ConfigError(`DATABASE_URL is not usable: ${(error as Error).message}.`)
  }
}

export interface PoolerSettings {
  endpoint: Endpoint
  /** An admin user of PgBouncer, who may send RELOAD. */
  admin: { user: string; password: string } | undefined
  /** The path of its auth_file. Without it, the platform writes no user list. */
  userList: string | undefined
}

const poolerPort = 6432

export function readPooler(
  url: string | undefined,
  userList: string | undefined,
): PoolerSettings | undefined {
  const name = 'PLATFORM_POOLER_URL'
  if (!url) {
    if (userList)
      throw new ConfigError(`PLATFORM_POOLER_USERLIST has no effect without ${name}; set that too.`)
    return
  }
  const { endpoint, user, password, hasPort } = readEndpoint(name, url)
  if ((user === '') !== (password === ''))
    throw new ConfigError(`${name} must have both a user and a password of PgBouncer, or neither.`)
  if (/\p{Cc}/u.test(user)) throw new ConfigError(`${name} has a control character in its user.`)
  return Object.freeze({
    endpoint: hasPort ? endpoint : { ...endpoint, port: poolerPort },
    admin: user === '' ? undefined : { user, password },
    userList: userList && resolve(userList),
  })
}

export function readReplica(url: string | undefined): Endpoint | undefined {
  if (!url) return
  const name = 'PLATFORM_REPLICA_URL'
  const { endpoint, user, password } = readEndpoint(name, url)
  if (user !== '' || password !== '')
    throw new ConfigError(`${name} must not contain a user or password: each project has its own.`)
  return endpoint
}

/** The value may contain a password, so no message repeats it. */
function readEndpoint(name: Name, url: string) {
  try {
    const { address, database } = parseDatabaseUrl(url)
    if (database !== undefined) throw new Error('it must not name a database: each project has its own')
    const { username, port } = new URL(url)
    const { host, port: givenPort, tls, password } = address
    return {
      endpoint: { host, port: givenPort, tls },
      user: decodeURIComponent(username),
      password,
      hasPort: port !== '',
    }
  } catch (error) {
    throw new ConfigError(
      `${name} must be of the form postgres://host:port, and is not usable: ${(error as Error).message}.`,
    )
  }
}

/** The value contains a password, so no message repeats it. */
export function readRedisUrl(url: string | undefined): string | undefined {
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

export function readSmtp(
  text: (name: Name) => string | undefined,
  portGiven: () => number,
): SmtpServer | undefined {
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

/** The bucket for files, or with the prefix that for backups. */
export function readS3(
  text: (name: Name) => string | undefined,
  prefix: '' | 'BACKUP_' = '',
): S3Settings | undefined {
  const named = <N extends string>(name: N) => `${prefix}${name}` as const
  const bucket = text(named('S3_BUCKET'))
  if (bucket === undefined) {
    const stray = settings.find(({ name }) => name.startsWith(`${prefix}S3_`) && text(name) !== undefined)
    if (stray) throw new ConfigError(`${stray.name} has no effect without ${prefix}S3_BUCKET; set that too.`)
    return
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket))
    throw new ConfigError(
      `${prefix}S3_BUCKET must be 3 to 63 lowercase letters, digits, dots and hyphens, not "${bucket}".`,
    )
  const required = (name: Name) => {
    const given = text(name)
    if (given === undefined) throw new ConfigError(`${name} must be set when ${prefix}S3_BUCKET is.`)
    return given
  }
  const endpoint = readS3Endpoint(named('S3_ENDPOINT'), text(named('S3_ENDPOINT')))
  const region = text(named('S3_REGION')) ?? 'us-east-1'
  if (!/^[a-z0-9-]+$/i.test(region))
    throw new ConfigError(`${prefix}S3_REGION must be the name of a region, not "${region}".`)
  const style = text(named('S3_FORCE_PATH_STYLE')) ?? String(endpoint !== undefined)
  if (style !== 'true' && style !== 'false')
    throw new ConfigError(`${prefix}S3_FORCE_PATH_STYLE must be true or false, not "${style}".`)
  return Object.freeze({
    endpoint,
    bucket,
    accessKeyId: required(named('S3_ACCESS_KEY_ID')),
    secretAccessKey: required(named('S3_SECRET_ACCESS_KEY')),
    region,
    forcePathStyle: style === 'true',
  })
}

export function readBackups(text: (name: Name) => string | undefined) {
  const directory = text('PLATFORM_BACKUP_DIR')
  const s3 = readS3(text, 'BACKUP_')
  if (directory !== undefined && s3)
    throw new ConfigError('PLATFORM_BACKUP_DIR has no effect with BACKUP_S3_BUCKET; set one of the two.')
  return Object.freeze({ directory: directory === undefined ? undefined : resolve(directory), s3 })
}

/** The value may contain a password by mistake, so no message repeats it. */
function readS3Endpoint(name: Name, url: string | undefined): string | undefined {
  if (url === undefined) return
  const parsed = URL.parse(url)
  if (!parsed || !/^https?:$/.test(parsed.protocol))
    throw new ConfigError(`${name} must be an http or https URL, such as https://s3.example.com.`)
  if (parsed.username || parsed.password || parsed.search || parsed.hash)
    throw new ConfigError(
      `${name} must not contain a user, password or query: the keys have their own settings.`,
    )
  return url
}
