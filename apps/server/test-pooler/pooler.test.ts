// Connections of projects through a real PgBouncer (npm run test:pooler).
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { Client } from 'pg'
import { scramVerifier } from '#src/kernel/crypto/scram.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform, type TestPlatform, testServer } from '#test/harness.ts'
import { type PgBouncer, poolSize, startPgBouncer } from '#test/pgbouncer.ts'

let pooler: PgBouncer
let platform: TestPlatform
before(async () => {
  pooler = await startPgBouncer(testServer().port)
  platform = await startPlatform({ settings: settings() })
})
after(async () => {
  await platform?.stop()
  await pooler?.stop()
})

const settings = () => ({ PLATFORM_POOLER_URL: pooler.url, PLATFORM_POOLER_USERLIST: pooler.userList })

async function reveal(id: string, at = platform) {
  const { status, body } = await at.call('GET', `/api/v1/projects/${id}/pooler`, { token: at.adminToken })
  assert.equal(status, 200)
  return body as { enabled: boolean; mode: string; pooled: string; direct: string }
}
const pooledOf = async (id: string) => (await reveal(id)).pooled
const warnings = async (at = platform): Promise<string[]> =>
  (await at.call('GET', '/api/v1/health/services')).body.warnings

async function connected<T>(connectionString: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ connectionString })
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}
const roleAt = (connectionString: string): Promise<string> =>
  connected(
    connectionString,
    async client => (await client.query('select current_user as role')).rows[0].role,
  )
const changed = (connectionString: string, change: (url: URL) => void) => {
  const url = new URL(connectionString)
  change(url)
  return url.href
}
const refused =
  /SASL authentication failed|password authentication failed|permission denied|not allowed|no such database|does not exist/

test('pooler: health asks for a reload while PgBouncer does not know the admin user, and is then quiet', async () => {
  await eventually(async () => /SASL authentication failed/.test(String(await warnings())), 'a warning')
  pooler.signal('SIGHUP')
  const { id } = await platform.createProject()
  await eventually(async () => {
    await reveal(id)
    return (await warnings()).length === 0
  }, 'no warning')
})

test('pooler: the pooled string connects as the owner, and transactions work', async () => {
  const { id } = await platform.createProject()
  const strings = await reveal(id)
  assert.deepEqual([strings.enabled, strings.mode], [true, 'transaction'])
  const ref = await platform.refOf(id)
  assert.equal(new URL(strings.pooled).port, String(pooler.port))
  assert.equal(await roleAt(strings.pooled), `${ref}_owner`)
  await connected(strings.pooled, async client => {
    await client.query('create table notes (id int primary key, text text)')
    await client.query('begin')
    await client.query(`insert into notes values (1, 'kept')`)
    await client.query('commit')
    await client.query('begin')
    await client.query('insert into notes values ($1, $2)', [2, 'lost'])
    await client.query('rollback')
  })
  const { rows } = await connected(strings.direct, client => client.query('select text from notes'))
  assert.deepEqual(rows, [{ text: 'kept' }])
})

test('pooler: 30 clients share few connections to Postgres', async () => {
  const { id } = await platform.createProject()
  const pooled = await pooledOf(id)
  const backends = new Set<number>()
  await Promise.all(
    Array.from({ length: 30 }, () =>
      connected(pooled, async client => {
        for (let turn = 0; turn < 3; turn++)
          backends.add((await client.query('select pg_backend_pid() as pid')).rows[0].pid)
      }),
    ),
  )
  assert.ok(backends.size >= 1 && backends.size <= poolSize, `${backends.size} backends`)
})

test('pooler: a wrong password, other databases and the admin console are refused', async () => {
  const [mine, other] = [await platform.createProject(), await platform.createProject()]
  const pooled = await pooledOf(mine.id)
  assert.ok(await roleAt(pooled))
  const wrong = changed(pooled, url => {
    url.password = `${url.password}x`
  })
  await assert.rejects(roleAt(wrong), refused)
  for (const database of [await platform.refOf(other.id), platform.control, 'postgres', 'pgbouncer']) {
    const elsewhere = changed(pooled, url => {
      url.pathname = `/${database}`
    })
    await assert.rejects(roleAt(elsewhere), refused, `${database} is open`)
  }
  const others = changed(pooled, url => {
    url.username = new URL(url.href).username.replace(/_owner$/, '_api')
  })
  await assert.rejects(roleAt(others), refused)
})

test('pooler: projects that are created and deleted later need no restart', async () => {
  for (let turn = 0; turn < 5; turn++) {
    const { id } = await platform.createProject()
    const pooled = await pooledOf(id)
    assert.ok(await roleAt(pooled))
    await platform.projects.remove({ params: { id } })
    await assert.rejects(roleAt(pooled), refused)
    assert.ok(!readFileSync(pooler.userList, 'utf8').includes(new URL(pooled).username))
  }
  assert.deepEqual(pooler.leftovers(), [])
})

test('pooler: a password that the project has changed is restored', async () => {
  const { id } = await platform.createProject()
  const pooled = await pooledOf(id)
  await connected(pooled, client => client.query(`alter role current_user password 'mine now'`))
  assert.equal(await pooledOf(id), pooled)
  assert.ok(await roleAt(pooled))
})

test('pooler: a login with the verifier of an earlier release works', async () => {
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const { direct } = await reveal(id)
  const verifier = await scramVerifier(decodeURIComponent(new URL(direct).password), randomBytes(16))
  await platform.asSuperuser('postgres', session =>
    session.script(`alter role ${ref}_owner password '${verifier}'`),
  )
  assert.ok(await roleAt(direct))
  assert.ok(await roleAt(await pooledOf(id)))
})

test('pooler: while it is down projects are served, and those created meanwhile work when it is back', async () => {
  await pooler.kill()
  const { id } = await platform.createProject()
  const strings = await reveal(id)
  assert.ok(await roleAt(strings.direct))
  await eventually(async () => /ECONNREFUSED/.test(String(await warnings())), 'a warning')
  await pooler.start()
  assert.ok(await roleAt(strings.pooled))
  await eventually(async () => (await warnings()).length === 0, 'no warning')
})

test('pooler: while it hangs, strings are returned', async () => {
  pooler.signal('SIGSTOP')
  try {
    const { id } = await platform.createProject()
    assert.ok(await roleAt((await reveal(id)).direct))
  } finally {
    pooler.signal('SIGCONT')
  }
  await eventually(async () => (await warnings()).length === 0, 'no warning')
})

test('pooler: a project of another node works, and nodes that share the list write it at the same time', async () => {
  const node = await startPlatform({ beside: platform, settings: settings() })
  try {
    const created = await Promise.all(
      [platform, node, platform, node].map(async at => {
        const { id } = await at.createProject()
        return { id, pooled: (await reveal(id, at)).pooled }
      }),
    )
    for (const { pooled } of created) assert.ok(await roleAt(pooled))
    await platform.projects.remove({ params: { id: created[1]!.id } })
    await assert.rejects(roleAt(created[1]!.pooled), refused)
    for (const { pooled } of created.toSpliced(1, 1)) assert.ok(await roleAt(pooled))
  } finally {
    await node.stop()
  }
})

test('pooler: without an admin user, the list counts after PgBouncer was reloaded by hand', async () => {
  const second = await startPgBouncer(platform.address.port)
  const node = await startPlatform({
    beside: platform,
    settings: {
      PLATFORM_POOLER_URL: `postgres://127.0.0.1:${second.port}`,
      PLATFORM_POOLER_USERLIST: second.userList,
    },
  })
  try {
    const { id } = await node.createProject()
    const { pooled } = await reveal(id, node)
    await assert.rejects(roleAt(pooled), refused)
    second.signal('SIGHUP')
    await eventually(() => roleAt(pooled).catch(() => undefined), 'it connects')
    assert.deepEqual(await warnings(node), [])
  } finally {
    await node.stop()
    await second.stop()
  }
})
