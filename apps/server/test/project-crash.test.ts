// Creating and deleting a project is atomic when the platform process is killed.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { eventually } from './eventually.ts'
import { call, testServer } from './harness.ts'
import { type Found, orphans, readProjects as readAllProjects, serverSessions } from './project-databases.ts'

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const control = `t_crash_${randomBytes(5).toString('hex')}`
const adminToken = randomBytes(24).toString('hex')
const cwd = fs.mkdtempSync(join(tmpdir(), 'plinth-crash-'))
const server = testServer()
const environment = {
  PATH: process.env['PATH'],
  TMPDIR: tmpdir(),
  // Speeds up the many starts.
  NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'],
  PLATFORM_PORT: '0',
  PLATFORM_DISK_RESERVE_MB: '0',
  PLATFORM_ADMIN_TOKEN: adminToken,
  CONTROL_PLANE_SECRET: randomBytes(24).toString('hex'),
  DATABASE_URL: `postgres://${server.user}:${server.password}@${encodeURIComponent(server.host)}:${server.port}/${control}`,
}

let child: ChildProcess
let url: string
/** All refs that its control database has ever contained. */
const refs = new Set<string>()
let inControl: pg.Client

const { undo, connect, holdTemplate } = serverSessions()

before(async () => {
  await start()
  inControl = await connect(control)
  // This session stays open for all tests.
  undo.length = 0
})

after(async () => {
  await kill()
  fs.rmSync(cwd, { recursive: true, force: true })
  await readProjects(inControl)
  await inControl.end()
  await withClient(server, 'postgres', guardedSettings, async session => {
    await session.script(`alter database ${control}_template is_template false`)
    for (const name of [...refs, `${control}_template`, control])
      await session.script(`drop database if exists ${name} with (force)`)
    for (const ref of refs)
      await session.script(`drop role if exists ${ref}_owner, ${ref}_api, ${ref}_svc, ${ref}_auth`)
  })
})

async function start(): Promise<void> {
  child = spawn(process.execPath, [main], { cwd, env: environment, stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr!.setEncoding('utf8').on('data', text => (output += text))
  await eventually(() => /running at \S+\n/.test(output) || child.exitCode !== null, 'the platform starts')
  url = /running at (\S+)/.exec(output)?.[1] ?? assert.fail(`the platform did not start: ${output}`)
}

async function kill(): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

const manage = (method: string, path: string, body?: unknown) =>
  call(`${url}/api/v1${path}`, method, { token: adminToken, body })
/** Sends a request without waiting for the answer, which may never arrive. */
const fire = (method: string, path: string, body?: unknown) =>
  void manage(method, path, body).catch(() => undefined)

async function readProjects(client: pg.Client): Promise<Found[]> {
  const found = await readAllProjects(client)
  for (const { ref } of found) refs.add(ref)
  return found
}

async function assertNoneUnfinished(): Promise<void> {
  for (const { ref, status, hasDatabase, logins } of await readProjects(inControl)) {
    if (status === 'deleted') continue
    assert.equal(status, 'active')
    assert.deepEqual([hasDatabase, logins], [true, 4], `${ref} is complete`)
  }
  // On a slow server the database is dropped after the start.
  await eventually(async () => (await orphans(inControl, refs)).length === 0, 'no orphan')
}

/** Kills the platform after `act` and starts it again. Returns how many projects were unfinished at the kill. */
async function killAfter(act: () => Promise<unknown>): Promise<number> {
  await act()
  await kill()
  const found = await readProjects(inControl)
  await start()
  await eventually(async () => !(await readProjects(inControl)).some(isUnfinished), 'the recovery has ended')
  await assertNoneUnfinished()
  return found.filter(isUnfinished).length
}

const isUnfinished = ({ status }: Found) => status === 'creating' || status === 'deleting'

/** Returns the complete project with this slug, and creates it if the slug is free. */
async function claim(slug: string): Promise<string> {
  const reply = await manage('POST', '/projects', { name: slug, slug })
  assert.ok([201, 409].includes(reply.status), JSON.stringify(reply.body))
  const { rows } = await inControl.query(`select id from projects where slug = $1 and status = 'active'`, [
    slug,
  ])
  assert.equal(rows.length, 1)
  return rows[0].id
}

/** Several creates and deletes begin one after the other, so each kill meets them at different moments. */
const pairs = [0, 1, 2] as const
const trials = 9

test('crash: after a crash at any time of a create or delete the next start completes or removes the project', async () => {
  const slugOf = (trial: number, pair: number) => `phoenix-${trial}-${pair}`
  const claimAll = (trial: number) => Promise.all(pairs.map(pair => claim(slugOf(trial, pair))))
  const early = await claimAll(-2)
  const since = performance.now()
  await Promise.all([claimAll(-1), ...early.map(id => manage('DELETE', `/projects/${id}`))])
  // Somewhat longer than the requests take on this machine.
  const wholeMs = Math.max(120, (performance.now() - since) * 1.3)
  const partMs = wholeMs / pairs.length
  let halfway = 0
  for (let trial = 0; trial < trials; trial++) {
    const victims = await claimAll(trial - 1)
    halfway += await killAfter(async () => {
      for (const pair of pairs) {
        if (pair > 0) await sleep(partMs)
        const slug = slugOf(trial, pair)
        fire('POST', '/projects', { name: slug, slug })
        fire('DELETE', `/projects/${victims[pair]}`)
      }
      await sleep((trial * partMs) / (trials - 1))
    })
  }
  assert.ok(halfway >= 3, `the kills interrupted only ${halfway} requests`)
})

const steps: [string, 'POST' | 'DELETE', (found: Found) => boolean][] = [
  ['the row is inserted', 'POST', ({ status }) => status === 'creating'],
  ['the roles are created', 'POST', ({ status, roles }) => status === 'creating' && roles === 4],
  ['the database is created', 'POST', ({ status, hasDatabase }) => status === 'creating' && hasDatabase],
  ['the row is marked', 'DELETE', ({ status }) => status === 'deleting'],
  ['the logins are disabled', 'DELETE', ({ status, logins }) => status === 'deleting' && logins === 0],
  ['the database is dropped', 'DELETE', ({ status, hasDatabase }) => status === 'deleting' && !hasDatabase],
]
for (const [step, method, isReached] of steps)
  test(`crash: a crash when ${step} during a ${method === 'POST' ? 'create' : 'delete'} leaves no unfinished project`, async () => {
    const slug = `step-${randomBytes(3).toString('hex')}`
    const id = method === 'DELETE' ? await claim(slug) : ''
    const ended = async () =>
      (await readProjects(inControl)).some(
        row =>
          row.slug === slug && (isReached(row) || row.status === (method === 'POST' ? 'active' : 'deleted')),
      )
    await killAfter(async () => {
      if (method === 'POST') fire('POST', '/projects', { name: slug, slug })
      else fire('DELETE', `/projects/${id}`)
      await eventually(ended, step)
    })
    const mine = (await readProjects(inControl)).filter(row => row.slug === slug && row.status !== 'deleted')
    if (method === 'DELETE') assert.deepEqual(mine, [])
    await claim(slug)
  })

test('crash: a database whose CREATE completes after the crash is removed', async () => {
  const slug = 'late'
  const held = await holdTemplate(control)
  fire('POST', '/projects', { name: slug, slug })
  await eventually(isCloning, 'a database is being created')
  await kill()
  await readProjects(inControl)
  await start()
  await held.release()
  await eventually(async () => !(await isCloning()), 'the statement has ended')
  await eventually(async () => (await readProjects(inControl)).every(row => row.slug !== slug), 'no row')
  await eventually(async () => (await orphans(inControl, refs)).length === 0, 'no orphan')
  await assertNoneUnfinished()
  await claim(slug)

  async function isCloning(): Promise<boolean> {
    const running = await inControl.query(
      `select from pg_stat_activity where state = 'active' and query like 'create database%' || $1 || '%'`,
      [`${control}_template`],
    )
    return running.rowCount === 1
  }
})
