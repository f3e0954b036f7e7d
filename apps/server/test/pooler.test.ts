// The connection strings of a project give access to its own database only, as its owner.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Client } from 'pg'
import { formatDatabaseUrl, parseDatabaseUrl } from '#src/kernel/postgres/server-address.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const reveal = (id: string, token = platform.adminToken) =>
  platform.call('GET', `/api/v1/projects/${id}/pooler`, { token })

async function connected<T>(connectionString: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
const whoAmI = (connectionString: string) =>
  connected(connectionString, async client => {
    const { rows } = await client.query(
      `select current_database() as database, current_user as role, inet_server_addr() is not null as tcp,
              (select rolsuper from pg_roles where rolname = current_user) as is_superuser`,
    )
    return rows[0]
  })

test('connection strings: the direct string connects over TCP to the project database as its owner', async () => {
  const { id } = await platform.createProject()
  const { status, body } = await reveal(id)
  assert.equal(status, 200)
  const { direct, ...rest } = body
  assert.deepEqual(rest, { project_id: id, enabled: false, mode: 'transaction', pooled: null })
  const ref = await platform.refOf(id)
  assert.equal(new URL(direct).host, `127.0.0.1:${platform.address.port}`)
  assert.deepEqual(await whoAmI(direct), {
    database: ref,
    role: `${ref}_owner`,
    tcp: true,
    is_superuser: false,
  })
  await connected(direct, client => client.query('create table made_by_hand (id int)'))
  const tables = await platform.call('GET', `/api/v1/projects/${id}/schema/tables`, {
    token: platform.adminToken,
  })
  assert.equal(tables.body.tables[0].rls_enabled, true)
})

test('connection strings: the login has no access to other projects or the control database', async () => {
  const [mine, other] = [await platform.createProject(), await platform.createProject()]
  const { direct } = (await reveal(mine.id)).body
  for (const database of [
    await platform.refOf(other.id),
    platform.control,
    `${platform.control}_template`,
    'postgres',
  ]) {
    const elsewhere = new URL(direct)
    elsewhere.pathname = `/${database}`
    await assert.rejects(
      connected(elsewhere.href, client => client.query('select 1')),
      /permission denied|not currently accepting/,
    )
  }
})

test('connection strings: a password that the tenant has changed is reset before the string is returned', async () => {
  const { id } = await platform.createProject()
  const { direct } = (await reveal(id)).body
  await connected(direct, client => client.query(`alter role current_user password 'mine now'`))
  await assert.rejects(whoAmI(direct), { code: '28P01' })
  const again = (await reveal(id)).body.direct
  assert.equal((await whoAmI(again)).is_superuser, false)
})

test('connection strings: with a pooler and a replica there is a string for each, with the same login', async () => {
  const node = await startPlatform({
    beside: platform,
    settings: {
      PLATFORM_POOLER_URL: 'postgres://[::1]?sslmode=verify-full',
      // A replica has the same roles and databases.
      PLATFORM_REPLICA_URL: `postgres://127.0.0.1:${platform.address.port}`,
    },
  })
  try {
    const { id } = await platform.createProject()
    const { status, body } = await node.call('GET', `/api/v1/projects/${id}/pooler`, {
      token: node.adminToken,
    })
    assert.equal(status, 200)
    const ref = await platform.refOf(id)
    const login = body.direct.split('@')[0]
    assert.deepEqual(body, {
      project_id: id,
      enabled: true,
      mode: 'transaction',
      direct: body.direct,
      pooled: `${login}@[::1]:6432/${ref}?sslmode=verify-full`,
      read_only: `${login}@127.0.0.1:${platform.address.port}/${ref}`,
    })
    assert.deepEqual(await whoAmI(body.read_only), await whoAmI(body.direct))
  } finally {
    await node.stop()
  }
})

test('connection strings: reading them needs admin scope and is audited, and the password is not logged', async () => {
  const { id } = await platform.createProject()
  for (const scope of ['read', 'deploy'] as const) {
    const { token } = await platform.platform.mintToken({ body: { name: scope, scope } })
    const refused = await reveal(id, token)
    assert.deepEqual([refused.status, refused.body.error.code], [403, 'insufficient_scope'])
  }
  const actions = async () => (await platform.admin.listAudit({ query: { project_id: id } })).entries
  assert.ok(!(await actions()).some(({ action }) => action === 'project.connection_strings_revealed'))
  const { direct } = (await reveal(id)).body
  const entries = await actions()
  assert.ok(entries.some(({ action }) => action === 'project.connection_strings_revealed'))
  const password = decodeURIComponent(new URL(direct).password)
  assert.ok(password.length > 20)
  assert.ok(!JSON.stringify(entries).includes(password))
  assert.ok(!platform.logged.some(line => line.includes(password)))
  assert.equal((await reveal(crypto.randomUUID())).status, 404)
})

test('connection strings: formatting and parsing a URL keeps all special characters', async () => {
  const address = {
    host: 'db.example.com',
    port: 6432,
    user: 'us er',
    password: 'p@ss:/?#&%"',
    tls: undefined,
  }
  for (const each of [
    address,
    { ...address, host: '/var/run/post gres' },
    { ...address, tls: { rejectUnauthorized: false } },
    { ...address, tls: { rejectUnauthorized: true } },
    { ...address, tls: { rejectUnauthorized: true, servername: 'db.example.com' } },
  ])
    assert.deepEqual(parseDatabaseUrl(formatDatabaseUrl(each, 'a b')), { address: each, database: 'a b' })
})

test('connection strings: a URL with a socket directory connects', async () => {
  const { id } = await platform.createProject()
  const { direct } = (await reveal(id)).body
  const { address, database } = parseDatabaseUrl(direct)
  const throughSocket = formatDatabaseUrl({ ...address, host: platform.address.host }, database!)
  assert.equal((await whoAmI(throughSocket)).tcp, false)
})
