import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readConfig } from './config.ts'
import { ConfigError } from './config-error.ts'
import { settings } from './settings.ts'

const secret = 'f3b1c09d7e5a42468f7c0a9be1d25d3b'
const external = { DATABASE_URL: 'postgres://u:p@db:5433/app', CONTROL_PLANE_SECRET: secret }

test('config: without settings the defaults of the embedded platform apply', () => {
  const config = readConfig({})
  assert.equal(config.host, '127.0.0.1')
  assert.equal(config.port, 39001)
  assert.equal(config.external, undefined)
  assert.deepEqual(config.rateLimits, { anon: 100, authenticated: 1000, service_role: 5000 })
  assert.deepEqual(config.statementTimeoutMs, { anon: 3000, others: 8000 })
  assert.equal(config.diskReserveMb, 1024)
  assert.ok(config.dataDir.endsWith('/.plinth/data'))
  assert.ok(Object.isFrozen(config))
})

test('config: DATABASE_URL names the server and the control database', () => {
  const { external: server } = readConfig(external)
  assert.deepEqual([server?.address.host, server?.address.port, server?.database], ['db', 5433, 'app'])
  assert.equal(
    readConfig({ ...external, DATABASE_URL: 'postgres://u:p@db/postgres' }).external?.database,
    'plinth',
  )
})

test('config: SMTP_HOST alone configures SMTP with default values', () => {
  assert.equal(readConfig({}).smtp, undefined)
  assert.deepEqual(readConfig({ SMTP_HOST: 'mail.test' }).smtp, {
    host: 'mail.test',
    port: 587,
    encryption: 'starttls',
    login: undefined,
    from: { name: '', address: 'no-reply@mail.test' },
  })
  const { smtp } = readConfig({ SMTP_HOST: 'mail.test', SMTP_PORT: '465', SMTP_USERNAME: 'shop@b.test' })
  assert.deepEqual(
    [smtp?.encryption, smtp?.login, smtp?.from.address],
    ['tls', { user: 'shop@b.test', password: '' }, 'shop@b.test'],
  )
  assert.equal(readConfig({ SMTP_HOST: '127.0.0.1', SMTP_PORT: '1025' }).smtp?.encryption, 'none')
})

const s3 = { S3_BUCKET: 'files', S3_ACCESS_KEY_ID: 'key', S3_SECRET_ACCESS_KEY: 'hunter2' }

test('config: S3_BUCKET with its keys configures S3 with default values', () => {
  assert.equal(readConfig({}).s3, undefined)
  const aws = {
    endpoint: undefined,
    bucket: 'files',
    accessKeyId: 'key',
    secretAccessKey: 'hunter2',
    region: 'us-east-1',
    forcePathStyle: false,
  }
  assert.deepEqual(readConfig(s3).s3, aws)
  const own = { ...s3, S3_ENDPOINT: 'http://127.0.0.1:9000', S3_REGION: 'garage' }
  assert.deepEqual(readConfig(own).s3, {
    ...aws,
    endpoint: 'http://127.0.0.1:9000',
    region: 'garage',
    forcePathStyle: true,
  })
  assert.equal(readConfig({ ...own, S3_FORCE_PATH_STYLE: 'false' }).s3?.forcePathStyle, false)
})

test('config: the pooler and the replica are endpoints, and the pooler may have an admin user', () => {
  assert.deepEqual([readConfig({}).pooler, readConfig({}).replica], [undefined, undefined])
  assert.deepEqual(readConfig({ PLATFORM_POOLER_URL: 'postgres://pool.test' }).pooler, {
    endpoint: { host: 'pool.test', port: 6432, tls: undefined },
    admin: undefined,
    userList: undefined,
  })
  const { pooler, replica } = readConfig({
    PLATFORM_POOLER_URL: 'postgres://plinth:p%40ss@pool.test:7000?sslmode=require',
    PLATFORM_POOLER_USERLIST: '/etc/pgbouncer/userlist.txt',
    PLATFORM_REPLICA_URL: 'postgresql://replica.test',
  })
  assert.deepEqual(pooler, {
    endpoint: { host: 'pool.test', port: 7000, tls: { rejectUnauthorized: false } },
    admin: { user: 'plinth', password: 'p@ss' },
    userList: '/etc/pgbouncer/userlist.txt',
  })
  assert.deepEqual(replica, { host: 'replica.test', port: 5432, tls: undefined })
})

test('config: durations are seconds unless they have a unit', () => {
  const timeoutOf = (given?: string) =>
    readConfig(given === undefined ? {} : { WEBHOOK_TIMEOUT: given }).webhooks.timeoutMs
  assert.deepEqual(
    [undefined, '5', '5s', '5 s', '250ms', '2m', '60m'].map(timeoutOf),
    [30_000, 5000, 5000, 5000, 250, 120_000, 3_600_000],
  )
  assert.deepEqual(readConfig({}).webhooks, {
    maxRetries: 5,
    timeoutMs: 30_000,
    retryBaseDelayMs: 10_000,
    maxConcurrent: 10,
    deadLetterRetentionDays: 30,
    maxStoredMb: 256,
  })
})

const bad: [string, Record<string, string>, RegExp][] = [
  ['a port that is no number', { PLATFORM_PORT: 'web' }, /^PLATFORM_PORT .*"web"/],
  ['a port out of range', { PLATFORM_PORT: '70000' }, /^PLATFORM_PORT .*65535/],
  ['a base URL that is none', { PLATFORM_BASE_URL: 'plinth.example' }, /^PLATFORM_BASE_URL /],
  ['a short admin token', { PLATFORM_ADMIN_TOKEN: 'short' }, /^PLATFORM_ADMIN_TOKEN .*32 characters/],
  [
    'a known secret',
    { CONTROL_PLANE_SECRET: 'your-super-secret-jwt-token-with-at-least-32-characters-long' },
    /^CONTROL_PLANE_SECRET .*guess/,
  ],
  ['a secret of one letter', { CONTROL_PLANE_SECRET: 'a'.repeat(40) }, /^CONTROL_PLANE_SECRET .*guess/],
  [
    'DATABASE_URL without the secret',
    { DATABASE_URL: external.DATABASE_URL },
    /^CONTROL_PLANE_SECRET .*DATABASE_URL/,
  ],
  ['a database URL of another kind', { ...external, DATABASE_URL: 'mysql://x' }, /^DATABASE_URL /],
  ['a database URL that is none', { ...external, DATABASE_URL: '???' }, /^DATABASE_URL /],
  [
    'an unknown sslmode',
    { ...external, DATABASE_URL: 'postgres://h/db?sslmode=maybe' },
    /^DATABASE_URL .*sslmode/,
  ],
  [
    'a proxy that is no address',
    { PLATFORM_TRUSTED_PROXIES: '10.0.0.0/8, proxy' },
    /^PLATFORM_TRUSTED_PROXIES .*"proxy"/,
  ],
  ['an SMTP host that is none', { SMTP_HOST: 'smtp://mail.test' }, /^SMTP_HOST .*"smtp:/],
  ['an SMTP port out of range', { SMTP_HOST: 'mail.test', SMTP_PORT: '65536' }, /^SMTP_PORT .*65535/],
  ['a stray SMTP setting', { SMTP_FROM_NAME: 'Shop' }, /^SMTP_FROM_NAME .*SMTP_HOST/],
  [
    'an SMTP password without a user',
    { SMTP_HOST: 'mail.test', SMTP_PASSWORD: 'x' },
    /^SMTP_PASSWORD .*SMTP_USERNAME/,
  ],
  [
    'a sender that is no address',
    { SMTP_HOST: 'mail.test', SMTP_FROM_EMAIL: 'Shop <a@b.test>' },
    /^SMTP_FROM_EMAIL .*"Shop/,
  ],
  [
    'a sender’s name of two lines',
    { SMTP_HOST: 'mail.test', SMTP_FROM_NAME: 'a\nBcc: b@c.test' },
    /^SMTP_FROM_NAME .*single line/,
  ],
  ['an unknown encryption', { SMTP_HOST: 'mail.test', SMTP_ENCRYPTION: 'ssl' }, /^SMTP_ENCRYPTION .*"ssl"/],
  ['a pooler that is no URL', { PLATFORM_POOLER_URL: 'pool.test:6432' }, /^PLATFORM_POOLER_URL .*postgres:/],
  [
    'a pooler with a database',
    { PLATFORM_POOLER_URL: 'postgres://pool.test/app' },
    /^PLATFORM_POOLER_URL .*database/,
  ],
  [
    'an admin user of the pooler without a password',
    { PLATFORM_POOLER_URL: 'postgres://plinth@pool.test' },
    /^PLATFORM_POOLER_URL .*password/,
  ],
  [
    'a control character in the admin user of the pooler',
    { PLATFORM_POOLER_URL: 'postgres://a%0Ab:hunter2@pool.test' },
    /^PLATFORM_POOLER_URL (?!.*hunter2).*control character/,
  ],
  [
    'a user list without a pooler',
    { PLATFORM_POOLER_USERLIST: '/tmp/list' },
    /^PLATFORM_POOLER_USERLIST .*PLATFORM_POOLER_URL/,
  ],
  [
    'a replica of another kind',
    { PLATFORM_REPLICA_URL: 'mysql://replica' },
    /^PLATFORM_REPLICA_URL .*postgres:/,
  ],
  [
    'a replica with a password, which is not repeated',
    { PLATFORM_REPLICA_URL: 'postgres://a:hunter2@replica.test' },
    /^PLATFORM_REPLICA_URL (?!.*hunter2).*own/,
  ],
  ['a stray S3 setting', { S3_REGION: 'us-east-1' }, /^S3_REGION .*S3_BUCKET/],
  ['a bucket that is no name', { ...s3, S3_BUCKET: 'My Files' }, /^S3_BUCKET .*"My Files"/],
  ['a bucket without an access key', { ...s3, S3_ACCESS_KEY_ID: '' }, /^S3_ACCESS_KEY_ID .*S3_BUCKET/],
  ['a bucket without a secret', { ...s3, S3_SECRET_ACCESS_KEY: '' }, /^S3_SECRET_ACCESS_KEY .*S3_BUCKET/],
  ['an S3 endpoint that is no URL', { ...s3, S3_ENDPOINT: 'localhost:9000' }, /^S3_ENDPOINT .*http/],
  [
    'an S3 endpoint with a password, which is not repeated',
    { ...s3, S3_ENDPOINT: 'https://key:hunter2@s3.test' },
    /^S3_ENDPOINT (?!.*hunter2)/,
  ],
  ['an S3 region that is none', { ...s3, S3_REGION: 'eu west' }, /^S3_REGION .*"eu west"/],
  [
    'a path style other than true or false',
    { ...s3, S3_FORCE_PATH_STYLE: 'yes' },
    /^S3_FORCE_PATH_STYLE .*"yes"/,
  ],
  [
    'an outbound target that is a name',
    { PLATFORM_OUTBOUND_ALLOW: '10.0.0.0/8,provider.example' },
    /^PLATFORM_OUTBOUND_ALLOW .*"provider.example"/,
  ],
  ['a range too wide', { PLATFORM_TRUSTED_PROXIES: '10.0.0.0/99' }, /^PLATFORM_TRUSTED_PROXIES /],
  [
    'an extension directory with an external server',
    { ...external, PLATFORM_EXTENSION_DIR: '/opt/extensions' },
    /^PLATFORM_EXTENSION_DIR .*DATABASE_URL/,
  ],
  [
    'an extension directory with a colon',
    { PLATFORM_EXTENSION_DIR: '/opt/a:b' },
    /^PLATFORM_EXTENSION_DIR .*colon/,
  ],
  ['a reserve that is no number', { PLATFORM_DISK_RESERVE_MB: '1GB' }, /^PLATFORM_DISK_RESERVE_MB .*"1GB"/],
  ['a negative limit', { PLATFORM_RATE_LIMIT_ANON: '-1' }, /^PLATFORM_RATE_LIMIT_ANON /],
  ['a short metrics token', { PLATFORM_METRICS_TOKEN: 'short' }, /^PLATFORM_METRICS_TOKEN .*32 characters/],
  ['a timeout of zero', { WEBHOOK_TIMEOUT: '0' }, /^WEBHOOK_TIMEOUT .*"0"/],
  ['a timeout without a known unit', { WEBHOOK_TIMEOUT: '1d' }, /^WEBHOOK_TIMEOUT .*"1d"/],
  ['a delay over an hour', { WEBHOOK_RETRY_BASE_DELAY: '61m' }, /^WEBHOOK_RETRY_BASE_DELAY .*"61m"/],
  ['no attempts at all', { WEBHOOK_MAX_RETRIES: '0' }, /^WEBHOOK_MAX_RETRIES .*"0"/],
  ['no concurrent attempts', { WEBHOOK_MAX_CONCURRENT: '0' }, /^WEBHOOK_MAX_CONCURRENT .*"0"/],
  ['an unknown log level', { PLATFORM_LOG_LEVEL: 'loud' }, /^PLATFORM_LOG_LEVEL /],
]
for (const [what, environment, message] of bad)
  test(`config: ${what} prevents the start, and the message names the setting`, () => {
    assert.throws(
      () => readConfig(environment),
      (error: Error) =>
        error instanceof ConfigError && message.test(error.message) && !error.message.includes('\n'),
    )
  })

test('config: every setting has a description and is listed once', () => {
  assert.equal(new Set(settings.map(({ name }) => name)).size, settings.length)
  for (const { meaning } of settings) assert.match(meaning, /\.$/)
})
