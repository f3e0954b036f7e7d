// The creation and the reset of a branch survive kill -9 of the platform and of Postgres.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { databasesOf } from '#src/tenancy/provision.ts'
import { branchesOf } from './branch-project.ts'
import { eventually } from './eventually.ts'
import { call, startPlatform, testServer } from './harness.ts'
import { startOwnServer } from './own-server.ts'
import { serverSessions } from './project-databases.ts'

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const control = `t_branch_${randomBytes(5).toString('hex')}`
const adminToken = randomBytes(24).toString('hex')
const cwd = fs.mkdtempSync(join(tmpdir(), 'plinth-branch-crash-'))
const files = join(cwd, 'data', 'objects')
const server = testServer()
const environment = {
  PATH: process.env['PATH'],
  TMPDIR: tmpdir(),
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
  PLATFORM_PORT: '0',
  PLATFORM_DISK_RESERVE_MB: '0',
  PLATFORM_ADMIN_TOKEN: adminToken,
  PLATFORM_DATA_DIR: join(cwd, 'data'),
  CONTROL_PLANE_SECRET: randomBytes(24).toString('hex'),
  DATABASE_URL: `postgres://${server.user}:${server.password}@${encodeURIComponent(server.host)}:${server.port}/${control}`,
}

/** Of a project, a task, or the code of a function in the object store. */
const isFolder = /^([0-9a-f-]{36}|f-[0-9a-f]{40})$/

let child: ChildProcess
let url: string
let parent: { id: string; service_role_key: string }
let inControl: pg.Client
const { undo, connect } = serverSessions()

const manage = (method: string, path: string, body?: unknown) =>
  call(`${url}/api/v1${path}`, method, { token: adminToken, body })

async function start(): Promise<void> {
  child = spawn(process.execPath, [main], { cwd, env: environment, stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr!.setEncoding('utf8').on('data', text => (output += text))
  await eventually(() => output.includes('Next:') || child.exitCode !== null, 'the platform starts')
  url = /running at (\S+)/.exec(output)?.[1] ?? assert.fail(`the platform did not start: ${output}`)
}

async function kill(): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

before(async () => {
  await start()
  inControl = await connect(control)
  // This session stays open for all tests.
  undo.length = 0
  parent = (await manage('POST', '/projects', { name: 'parent' })).body
  const made = await call(`${url}/v1/rest/${parent.id}/rpc/exec_sql`, 'POST', {
    token: parent.service_role_key,
    body: {
      sql: `create table notes (id int primary key, text text);
            insert into notes select n, repeat('x', 100) from generate_series(1, 1000) n`,
    },
  })
  assert.ok(made.status < 300, JSON.stringify(made.body))
  const code = `Deno.serve(() => new Response('hello'))`
  const deployed = await manage('POST', `/projects/${parent.id}/functions`, { name: 'greet', code })
  assert.equal(deployed.status, 201, JSON.stringify(deployed.body))
})

after(async () => {
  await kill()
  fs.rmSync(cwd, { recursive: true, force: true })
  const { rows } = await inControl.query<{ ref: string }>('select ref from projects')
  await inControl.end()
  await withClient(server, 'postgres', guardedSettings, async session => {
    await session.script(`alter database ${control}_template is_template false`)
    for (const name of [...rows.flatMap(({ ref }) => databasesOf(ref)), `${control}_template`, control])
      await session.script(`drop database if exists ${name} with (force)`)
    for (const { ref } of rows)
      await session.script(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
  })
})

const refOf = async (id: string): Promise<string> =>
  (await inControl.query('select ref from projects where id = $1', [id])).rows[0].ref

const found = async (statement: string, value: unknown): Promise<boolean> =>
  (await inControl.query(statement, [value])).rows.length > 0

/** Starts the platform again, which takes the task as soon as the lease of the killed node is over. */
async function startAgain(): Promise<void> {
  await kill()
  await inControl.query('update branch_tasks set leased_until = now() where leased_until is not null')
  await start()
}

/** Folders that belong to no project. */
async function strayFolders(): Promise<string[]> {
  const { rows } = await inControl.query<{ id: string; archive: string | null }>(
    `select p.id, a.id as archive from projects p left join function_archives a on a.project_id = p.id
      where p.status <> 'deleted'`,
  )
  const known = new Set(
    rows.flatMap(({ id, archive }) => [id, ...(archive ? [codeFolder(id, archive)] : [])]),
  )
  return fs.readdirSync(files).filter(each => isFolder.test(each) && !known.has(each))
}
const codeFolder = (project: string, archive: string) =>
  `f-${createHash('sha256').update(`${project} ${archive}`).digest('hex').slice(0, 40)}`

/** Nothing is left of attempts: the branch has one database and four roles, and the task has no files. */
async function assertComplete(id: string, slug: string): Promise<void> {
  let branch: any
  await eventually(async () => {
    branch = (await manage('GET', `/projects/${parent.id}/branches/${slug}`)).body
    return branch.progress === null
  }, 'the task has ended')
  assert.deepEqual([branch.status, branch.error], ['active', null])
  const ref = await refOf(id)
  const databasesAndRoles = async () => {
    const { rows } = await inControl.query<{ name: string }>(
      `select datname as name from pg_database where starts_with(datname, $1)
       union all select rolname from pg_roles where starts_with(rolname, $1) order by 1`,
      [ref],
    )
    return rows.map(({ name }) => name).join(' ')
  }
  // What a reset has replaced is dropped a little later if the platform was killed after the exchange.
  const expected = [ref, `${ref}_api`, `${ref}_auth`, `${ref}_owner`, `${ref}_svc`].join(' ')
  await eventually(async () => (await databasesAndRoles()) === expected, `only ${expected} is left`)
  assert.deepEqual(await strayFolders(), [])
  const isLocked = async () => {
    const { rows: locks } = await inControl.query(
      `select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = $1)
          and (classid::bigint << 32) | objid::bigint = hashtextextended($2, 0)`,
      [control, id],
    )
    return locks.length > 0
  }
  await eventually(async () => !(await isLocked()), 'no lock is left')
}

/** On a slow server the database is dropped after the answer. */
const untilDropped = (ref: string) =>
  eventually(
    async () =>
      !(await found(
        `select from pg_database where starts_with(datname, $1)
         union all select from pg_roles where starts_with(rolname, $1)`,
        ref,
      )),
    'no database and no role is left',
  )

async function countNotes(key: string, id: string): Promise<number> {
  const { body } = await call(`${url}/v1/${id}/rest/v1/notes?select=count`, 'GET', { apikey: key })
  return body[0]?.count ?? assert.fail(JSON.stringify(body))
}

const insertNote = (key: string, id: string, note: number) =>
  eventually(async () => {
    const { status } = await call(`${url}/v1/${id}/rest/v1/notes`, 'POST', {
      apikey: key,
      body: { id: note },
    })
    return status === 201
  }, 'a row is written')

const moments: Record<string, (ref: string) => [string, string]> = {
  'when the task begins': () => ['select from branch_tasks where attempts > 0 and $1::text is not null', ''],
  'when roles are made': ref => ['select from pg_roles where rolname = $1', `${ref}_auth`],
  'when the database appears': ref => ['select from pg_database where datname = $1', ref],
  'when rights are given': ref => [
    "select from pg_database where datname = $1 and datacl::text like '%_owner%'",
    ref,
  ],
}

for (const [name, moment] of Object.entries(moments))
  for (const isHeld of [false, true])
    test(`branch: kill -9 of the platform ${name}, copied ${isHeld ? 'by objects' : 'as a whole'}`, async () => {
      const parentRef = await refOf(parent.id)
      // Another session prevents a copy as a whole.
      const other = isHeld ? await connect(parentRef) : undefined
      const { body: branch } = await manage('POST', `/projects/${parent.id}/branches`, { name })
      const ref = await refOf(branch.id)
      const [statement, value] = moment(ref)
      const isOver = async () =>
        !(await found('select from branch_tasks where branch_id = $1 and not is_cancelled', branch.id))
      await eventually(async () => (await found(statement, value)) || (await isOver()), name)
      await startAgain()
      await other?.end()
      await assertComplete(branch.id, branch.slug)
      assert.equal(await countNotes(branch.service_role_key, branch.id), 1000)
      const removed = await manage('DELETE', `/projects/${parent.id}/branches/${branch.slug}`)
      assert.equal(removed.status, 204)
      await untilDropped(ref)
    })

for (const isKilled of [false, true])
  test(`branch: no code of functions is left of one that is deleted ${isKilled ? 'after kill -9 during its creation' : 'while it is created'}`, async () => {
    const parentRef = await refOf(parent.id)
    const holder = await connect(parentRef)
    await holder.query('begin; lock table public.notes in access exclusive mode')
    const name = isKilled ? 'killed and deleted' : 'deleted'
    const { body: branch } = await manage('POST', `/projects/${parent.id}/branches`, { name })
    const ref = await refOf(branch.id)
    await eventually(
      () => found("select from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'", parentRef),
      'the dump waits for the lock, after files were copied',
    )
    const { rows } = await inControl.query('select id from function_archives where project_id = $1', [
      parent.id,
    ])
    const copied = rows.map(({ id }) => codeFolder(branch.id, id))
    assert.ok(copied.length > 0)
    for (const folder of copied) assert.ok(fs.existsSync(join(files, folder)))
    if (isKilled) {
      await kill()
      await start()
    }
    const removed = await manage('DELETE', `/projects/${parent.id}/branches/${branch.slug}`)
    assert.equal(removed.status, 204, JSON.stringify(removed.body))
    await holder.query('rollback')
    await holder.end()
    await inControl.query('update branch_tasks set leased_until = now() where branch_id = $1', [branch.id])
    await untilDropped(ref)
    await eventually(async () => (await strayFolders()).length === 0, 'nothing is left in the object store')
  })

test('branch: kill -9 of the platform while the parent is read', async () => {
  const parentRef = await refOf(parent.id)
  const holder = await connect(parentRef)
  await holder.query('begin; lock table public.notes in access exclusive mode')
  const { body: branch } = await manage('POST', `/projects/${parent.id}/branches`, { name: 'while reading' })
  await eventually(
    () => found("select from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'", parentRef),
    'the dump waits for the lock',
  )
  await startAgain()
  await holder.query('rollback')
  await holder.end()
  await assertComplete(branch.id, branch.slug)
  await manage('DELETE', `/projects/${parent.id}/branches/${branch.slug}`)
})

test('branch reset: kill -9 of the platform while the copy is filled, and when it was exchanged', async () => {
  const { body: branch } = await manage('POST', `/projects/${parent.id}/branches`, { name: 'reset' })
  await assertComplete(branch.id, branch.slug)
  const ref = await refOf(branch.id)
  for (const database of [`${ref}_reset`, `${ref}_replaced`]) {
    const started = await manage('POST', `/projects/${parent.id}/branches/reset/reset`)
    assert.equal(started.status, 202, JSON.stringify(started.body))
    await eventually(
      async () =>
        (await found('select from pg_database where datname = $1', database)) ||
        !(await found('select from branch_tasks where branch_id = $1', branch.id)),
      `the database ${database} is there`,
    )
    await startAgain()
    const isExchanged = database.endsWith('_replaced')
    // A reset that is repeated after the exchange would lose what is written now.
    if (isExchanged) await insertNote(branch.service_role_key, branch.id, 1001)
    await assertComplete(branch.id, branch.slug)
    assert.equal(await countNotes(branch.service_role_key, branch.id), isExchanged ? 1001 : 1000)
  }
  // A deletion while a reset runs.
  await manage('POST', `/projects/${parent.id}/branches/reset/reset`)
  assert.equal((await manage('DELETE', `/projects/${parent.id}/branches/reset`)).status, 204)
  await eventually(
    async () => !(await found('select from branch_tasks where branch_id = $1', branch.id)),
    'the task has ended',
  )
  await untilDropped(ref)
})

test('branch: a crash of Postgres during the copy is survived', async t => {
  const own = await startOwnServer()
  t.after(() => own.stop())
  const platform = await startPlatform({ server: own })
  t.after(() => platform.stop())
  const project = await platform.createProject()
  const branches = branchesOf(platform, project.id)
  const created = await branches.api.create({ params: { id: project.id }, body: { name: 'crashed' } })
  const ref = await platform.refOf(created.id)
  await eventually(
    async () =>
      (await platform.asSuperuser('postgres', session =>
        session.row(sql`select from pg_database where datname = ${ref}`),
      )) !== undefined,
    'the database appears',
  )
  await own.crash()
  await eventually(async () => {
    const branch = await branches.read('crashed').catch(() => undefined)
    return branch?.progress === null
  }, 'the task has ended')
  const { status, error } = await branches.read('crashed')
  if (status === 'failed') {
    assert.ok(error)
    await branches.api.reset({ params: { id: project.id, slug: 'crashed' } })
    assert.equal((await branches.ended('crashed')).status, 'active')
  } else assert.equal(status, 'active')
})
