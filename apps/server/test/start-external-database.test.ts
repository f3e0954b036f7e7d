// main.ts with DATABASE_URL: a Postgres server that the operator runs.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import pg from 'pg'
import { call, testServer } from './harness.ts'
import { occupyPort } from './occupied-port.ts'
import { exitOf, platformProcesses, stop, whoami } from './platform-process.ts'

const { root, launch, start, failureOf, newDataDir, processes } = platformProcesses()

const newSecret = () => randomBytes(24).toString('hex')

interface ExternalDatabase {
  env: Record<string, string>
  dataDir: string
  database: string
}

async function withExternalDatabase(
  name: string,
  work: (external: ExternalDatabase) => Promise<void>,
): Promise<void> {
  const database = `t_start_${randomBytes(5).toString('hex')}`
  const env = { DATABASE_URL: databaseUrl({ database }), CONTROL_PLANE_SECRET: newSecret() }
  const dataDir = newDataDir(name)
  try {
    await work({ env, dataDir, database })
  } finally {
    for (const run of processes) {
      if (!run.hasEnded) run.child.kill('SIGKILL')
      await run.ended
    }
    await onServer(async client => {
      const control = await inDatabase(database, inside => inside.query('select ref from projects')).catch(
        () => undefined,
      )
      const exists = await client.query('select from pg_database where datname = $1', [
        `${database}_template`,
      ])
      if (exists.rowCount) await client.query(`alter database ${database}_template is_template false`)
      const refs: string[] = control?.rows.map(({ ref }) => ref) ?? []
      for (const each of [...refs, `${database}_template`, database])
        await client.query(`drop database if exists ${each} with (force)`)
      for (const ref of refs)
        await client.query(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
    })
  }
}

function databaseUrl(overrides: {
  user?: string
  password?: string
  host?: string
  port?: number
  database?: string
}) {
  const { host, port, user, password, database = '' } = { ...testServer(), ...overrides }
  return `postgres://${user}:${encodeURIComponent(password)}@${encodeURIComponent(host)}:${port}/${database}`
}

async function inDatabase<T>(database: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const { host, port, user, password } = testServer()
  const client = new pg.Client({ host, port, user, password, database })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
const onServer = <T>(work: (client: pg.Client) => Promise<T>) => inDatabase('postgres', work)

test('external database: DATABASE_URL without CONTROL_PLANE_SECRET is an error', async () => {
  const message = await failureOf({
    dataDir: newDataDir('no secret'),
    env: { DATABASE_URL: databaseUrl({}) },
  })
  assert.match(message, /CONTROL_PLANE_SECRET.*DATABASE_URL/)
})

test('external database: no embedded Postgres is started, and the first login is the bootstrapped super_admin', () =>
  withExternalDatabase('external', async ({ env, dataDir }) => {
    const cwd = join(root, 'external cwd')
    fs.mkdirSync(cwd)
    fs.writeFileSync(
      join(cwd, '.env'),
      Object.entries(env)
        .map(([name, value]) => `${name}=${value}\n`)
        .join(''),
    )
    const platform = await start({ dataDir, cwd })
    assert.equal((await call(`${platform.url}/health`, 'GET', {})).status, 200)
    assert.deepEqual(fs.readdirSync(dataDir).sort(), ['backups', 'objects', 'platform.json', 'platform.lock'])
    for (const token of ['undefined', 'null', env['CONTROL_PLANE_SECRET']!])
      assert.equal((await call(`${platform.url}/api/v1/projects`, 'GET', { token })).status, 401)

    const login = { email: 'a@b.co', password: 'correct horse battery' }
    const bootstrap = ['bootstrap', '--email', login.email]
    const bootstrapEnv = { ...env, PLATFORM_BOOTSTRAP_PASSWORD: login.password }
    const bootstrapped = launch({ dataDir, args: bootstrap, env: bootstrapEnv })
    assert.equal(await exitOf(bootstrapped), '0', bootstrapped.stderr)
    const { email, role } = JSON.parse(bootstrapped.stdout)
    assert.deepEqual([email, role], [login.email, 'super_admin'])
    assert.ok(!(bootstrapped.stdout + bootstrapped.stderr).includes(login.password))
    assert.match(
      await failureOf({ dataDir, args: ['bootstrap', '--email', 'c@d.eu'], env: bootstrapEnv }),
      /super_admin/,
    )
    assert.match(await failureOf({ dataDir, args: ['bootstrap'], env: bootstrapEnv }), /--email/)
    assert.match(
      await failureOf({ dataDir, args: ['bootstrap', '--mail', 'x'], env: bootstrapEnv }),
      /--mail/,
    )

    const session = await call(`${platform.url}/api/v1/platform/login`, 'POST', { body: login })
    assert.equal(session.status, 200)
    const project = await call(`${platform.url}/api/v1/projects`, 'POST', {
      token: session.body.token,
      body: { name: 'external' },
    })
    assert.equal(project.status, 201)
    await stop(platform)
    const again = await start({ dataDir, env })
    assert.equal((await whoami(again, project.body)).status, 200)
    await stop(again)
    const removal = launch({ dataDir, args: ['remove-data'], env })
    assert.equal(await exitOf(removal), '0', removal.stderr)
    assert.ok(!fs.existsSync(dataDir))
  }))

test('external database: bootstrap reads the password from standard input', () =>
  withExternalDatabase('piped', async ({ env, dataDir }) => {
    const bootstrapped = launch({ dataDir, args: ['bootstrap', '--email', 'a@b.co'], env })
    bootstrapped.child.stdin!.end('correct horse battery\n')
    assert.equal(await exitOf(bootstrapped), '0', bootstrapped.stderr)
    const short = launch({ dataDir, args: ['bootstrap', '--email', 'a@b.co'], env })
    short.child.stdin!.end('short\n')
    assert.equal(await exitOf(short), '1')
    assert.match(short.stderr, /^[^\n]*12 characters[^\n]*\n$/)
  }))

test('external database: a CONTROL_PLANE_SECRET other than that of the first start is a one-line error', () =>
  withExternalDatabase('secret', async ({ env, dataDir }) => {
    await stop(await start({ dataDir, env }))
    const other = { ...env, CONTROL_PLANE_SECRET: newSecret() }
    assert.match(await failureOf({ dataDir, env: other }), /CONTROL_PLANE_SECRET/)
    assert.match(
      await failureOf({
        dataDir,
        env: { ...other, PLATFORM_BOOTSTRAP_PASSWORD: 'correct horse battery' },
        args: ['bootstrap', '--email', 'a@b.co'],
      }),
      /CONTROL_PLANE_SECRET/,
    )
    await start({ dataDir, env })
  }))

test('external database: tenants cannot connect to a control database that the operator created', () =>
  withExternalDatabase('created by operator', async ({ env, dataDir, database }) => {
    await onServer(client => client.query(`create database ${database}`))
    await start({ dataDir, env })
    const open = await onServer(client =>
      client.query(
        `select datname from pg_database
          where datname in ($1, $2) and has_database_privilege('anon', oid, 'connect')`,
        [database, `${database}_template`],
      ),
    )
    assert.deepEqual(open.rows, [])
  }))

test('external database: an unusable server is a one-line error that names DATABASE_URL', async () => {
  const role = `t_start_${randomBytes(5).toString('hex')}`
  const unusedPort = await occupyPort()
  unusedPort.close()
  await onServer(client => client.query(`create role ${role} login password 'a-password-of-this-role'`))
  const limited = databaseUrl({ user: role, password: 'a-password-of-this-role' })
  const cases: [string, string, RegExp?][] = [
    ['nothing listens', databaseUrl({ host: '127.0.0.1', port: unusedPort.port })],
    [
      'nothing listens on a name with two addresses',
      databaseUrl({ host: 'localhost', port: unusedPort.port }),
    ],
    ['no such host', databaseUrl({ host: 'nowhere.invalid' })],
    ['no such socket', databaseUrl({ host: join(root, 'no socket') })],
    ['wrong password', databaseUrl({ password: 'a-wrong-password' })],
    ['may not connect', limited],
    ['not a superuser', limited, /superuser/],
  ]
  const problems: string[] = []
  try {
    for (const [what, url, wording] of cases) {
      if (wording) await onServer(client => client.query(`grant connect on database postgres to ${role}`))
      const env = { DATABASE_URL: url, CONTROL_PLANE_SECRET: newSecret() }
      const message = await failureOf({ dataDir: newDataDir('unusable'), env }).catch(error => error as Error)
      if (message instanceof Error) problems.push(`${what}: ${message.message}`)
      else if (!message.includes('DATABASE_URL')) problems.push(`${what}: ${message}`)
      else if (wording && !wording.test(message)) problems.push(`${what}: ${message}`)
      else if (/a-(wrong-)?password/.test(message)) problems.push(`${what}: the error contains the password`)
    }
  } finally {
    await onServer(async client => {
      await client.query(`drop owned by ${role}`)
      await client.query(`drop role ${role}`)
    })
  }
  assert.deepEqual(problems, [])
})
