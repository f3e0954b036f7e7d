// Settings from the environment and from .env.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { settings } from '#src/settings.ts'
import { assertStopped } from './data-dir.ts'
import { platformProcesses, repository } from './platform-process.ts'

const { root, failureOf, dataDirWithProject, newDataDir } = platformProcesses()

/** Every value of this one starts the platform; an unknown one warns. */
const alwaysValid = 'PLATFORM_EDGE_ISOLATION'
const invalidValues: Record<Exclude<(typeof settings)[number]['name'], typeof alwaysValid>, string> = {
  PLATFORM_HOST: 'no such host',
  PLATFORM_PORT: '65536',
  PLATFORM_BASE_URL: 'ftp://example.com',
  PLATFORM_DATA_DIR: '/dev/null/below a file',
  PLATFORM_ADMIN_TOKEN: 'change-me-change-me-change-me-change-me',
  CONTROL_PLANE_SECRET: '0123456789abcdef0123456789abcde',
  PLATFORM_METRICS_TOKEN: 'scrape-scrape-scrape-scrape',
  DATABASE_URL: 'postgres://user:hunter2@host:port/database',
  PLATFORM_EXTENSION_DIR: '/dev/null/below a file',
  PLATFORM_TRUSTED_PROXIES: '10.0.0.1, ::1/x',
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.1, intranet',
  PLATFORM_RATE_LIMIT_ANON: '-1',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '1e3',
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '1.5',
  PLATFORM_STATEMENT_TIMEOUT_MS: '8s',
  PLATFORM_STATEMENT_TIMEOUT_ANON_MS: '2147483648',
  PLATFORM_REST_MAX_ROWS: '-1',
  PLATFORM_GRAPHQL_MAX_DOCUMENT_BYTES: '999',
  PLATFORM_GRAPHQL_MAX_DEPTH: '14',
  PLATFORM_GRAPHQL_MAX_FIELDS: '0',
  PLATFORM_GRAPHQL_MAX_ALIASES: '-1',
  PLATFORM_GRAPHQL_MAX_COMPLEXITY: 'many',
  PLATFORM_POOL_SIZE: '0',
  PLATFORM_MAX_DB_CONNECTIONS: '3',
  PLATFORM_REALTIME_MAX_LISTENERS: '0',
  PLATFORM_REALTIME_MAX_DB_CONNECTIONS: 'many',
  PLATFORM_REALTIME_QUERY_POOL_SIZE: '0',
  PLATFORM_AUDIT_RETENTION_DAYS: '0',
  PLATFORM_LOG_RETENTION_DAYS: '0',
  PLATFORM_NPM_REGISTRY: 'localhost:4873',
  RUNTIME_PORT: '65536',
  RUNTIME_SUPERVISOR: 'yes',
  RUNTIME_MAX_WORKERS: '0',
  RUNTIME_WORKER_IDLE_MS: '5m',
  RUNTIME_REQUEST_TIMEOUT_MS: '0',
  RUNTIME_WORKER_BACKOFF_START_MS: '0',
  RUNTIME_WORKER_BACKOFF_CAP_MS: '-1',
  RUNTIME_WORKER_HEALTHY_RESET_MS: 'never',
  RUNTIME_WORKER_START_TIMEOUT_MS: '0',
  WEBHOOK_MAX_RETRIES: '0',
  WEBHOOK_TIMEOUT: '2h',
  WEBHOOK_RETRY_BASE_DELAY: '0',
  WEBHOOK_MAX_CONCURRENT: '0',
  WEBHOOK_MAX_STORED_MB: '0',
  PLATFORM_UPGRADE: 'later',
  PLATFORM_BACKUP_DIR: '/dev/null/backups',
  BACKUP_S3_BUCKET: 'two words',
  BACKUP_S3_ENDPOINT: 'https://key:hunter2@s3.test',
  BACKUP_S3_ACCESS_KEY_ID: 'without a bucket',
  BACKUP_S3_SECRET_ACCESS_KEY: 'hunter2',
  BACKUP_S3_REGION: 'without a bucket',
  BACKUP_S3_FORCE_PATH_STYLE: 'true',
  PLATFORM_PITR: 'yes',
  PLATFORM_PITR_DAYS: '0',
  PLATFORM_DLQ_RETENTION_DAYS: '0',
  PLATFORM_DISK_RESERVE_MB: '1GB',
  REDIS_URL: 'localhost:6379',
  PLATFORM_POOLER_URL: 'postgres://admin:hunter2@pooler:port',
  PLATFORM_POOLER_USERLIST: '/without/a/pooler',
  PLATFORM_REPLICA_URL: 'postgres://user:hunter2@replica',
  PLATFORM_CRON_TIMEOUT_MS: '0',
  SMTP_HOST: 'two words',
  SMTP_PORT: '65536',
  SMTP_USERNAME: 'without a host',
  SMTP_PASSWORD: 'hunter2',
  SMTP_FROM_EMAIL: 'no address',
  SMTP_FROM_NAME: 'without a host',
  SMTP_ENCRYPTION: 'ssl',
  S3_BUCKET: 'two words',
  S3_ENDPOINT: 'https://key:hunter2@s3.test',
  S3_ACCESS_KEY_ID: 'without a bucket',
  S3_SECRET_ACCESS_KEY: 'hunter2',
  S3_REGION: 'without a bucket',
  S3_FORCE_PATH_STYLE: 'true',
  PLATFORM_LOG_LEVEL: 'verbose',
  PLATFORM_SHUTDOWN_GRACE_MS: '-5',
}

test('settings: an invalid value of any setting is a one-line error that names the setting', async () => {
  const all = [...Object.keys(invalidValues), alwaysValid]
  assert.deepEqual(all.sort(), settings.map(({ name }) => name).sort())
  const dataDir = await dataDirWithProject('invalid settings')
  const problems: string[] = []
  const attempt = async (name: string, value: string) => {
    const message = await failureOf({ dataDir, env: { [name]: value } }).catch(error => error as Error)
    const isSecret = /TOKEN|SECRET/.test(name)
    if (message instanceof Error) problems.push(`${name}=${value}: ${message.message}`)
    else if (!message.includes(name)) problems.push(`${name}=${value}: ${message}`)
    else if (message.includes(isSecret ? value : 'hunter2'))
      problems.push(`${name}: the error contains the secret`)
  }
  // An invalid host fails only at listen, after the data directory is taken, so these run one by one.
  for (const host of [invalidValues.PLATFORM_HOST, '203.0.113.7']) await attempt('PLATFORM_HOST', host)
  const rest: [string, string][] = Object.entries(invalidValues).filter(([name]) => name !== 'PLATFORM_HOST')
  rest.push(['PLATFORM_DATA_DIR', join(repository, 'package.json')])
  const attemptRest = async () => {
    for (let next = rest.shift(); next; next = rest.shift()) await attempt(...next)
  }
  await Promise.all([attemptRest(), attemptRest(), attemptRest()])
  assert.deepEqual(problems, [])
  assertStopped(dataDir)
})

test('settings: .env in the working directory is read, and environment variables override it', async () => {
  const cwd = join(root, 'with env')
  fs.mkdirSync(cwd)
  fs.writeFileSync(join(cwd, '.env'), '# comment\nPLATFORM_LOG_LEVEL="chatty"\n')
  const dataDir = newDataDir('env')
  assert.match(await failureOf({ dataDir, cwd }), /PLATFORM_LOG_LEVEL.*chatty/)
  assert.match(
    await failureOf({ dataDir, cwd, env: { PLATFORM_LOG_LEVEL: 'loud' } }),
    /PLATFORM_LOG_LEVEL.*loud/,
  )
})
