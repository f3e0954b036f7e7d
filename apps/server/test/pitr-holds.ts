// Stops a recovery to a time at a step, on a platform as an operator runs it: rows of the copy wait while the owner of the
// project has a right, and other steps for a lock of the test.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { PitrJob, PitrStatus } from '@plinth/contract/pitr.ts'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import pg from 'pg'
import { withClient } from '#src/kernel/postgres/database.ts'
import { locate, placeInside } from '#src/kernel/postgres/engine/place.ts'
import { requestCutover } from '#src/services/pitr/cutover-request.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { connectAsSuperuser, postmastersIn, secretsOf } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { ask, jobOf, notes, recoveriesIn, rest, untilArchived } from './pitr-host.ts'
import { createProject, manage, type RunningPlatform } from './platform-process.ts'

/** The owner of the project may create schemas in the control database while its rows wait, which every database knows. */
const schema = `
  create function wait_in_copy(n int) returns int language plpgsql immutable as $$ begin
    while current_database() like '%recovered' and has_database_privilege('plinth', 'create')
    loop perform pg_sleep(0.02); end loop;
    return n;
  end $$;
  create table notes (n int, m int generated always as (wait_in_copy(n)) stored);
  create view shown as select 1 as n`

export interface HeldProject extends CreatedProject {
  ref: string
}

/** A project whose copy waits while its rows come in, if they are held. */
export async function heldProject(platform: RunningPlatform, name: string): Promise<HeldProject> {
  const project = await createProject(platform, name)
  const made = await rest(platform, project, 'POST', 'rpc/exec_sql', { sql: schema })
  assert.ok(made.status < 300, JSON.stringify(made.body))
  // The platform would verify the backup before a cutover by itself, in a database of its own.
  const path = `/projects/${project.id}/backups/settings`
  assert.equal((await manage(platform, 'PUT', path, { verify_enabled: false })).status, 200)
  await untilArchived(platform, project)
  const [{ ref }] = await ask(
    platform.dataDir,
    'plinth',
    `select ref from projects where id = '${project.id}'`,
  )
  return { ...project, ref }
}

export const holdRows = (dataDir: string, { ref }: HeldProject) =>
  ask(dataDir, 'plinth', `grant create on database plinth to ${ref}_owner`)

/** Postgres may be starting. */
export const letRowsIn = (dataDir: string, { ref }: HeldProject) =>
  eventually(
    () =>
      ask(dataDir, 'plinth', `revoke create on database plinth from ${ref}_owner`).then(
        () => true,
        () => false,
      ),
    'the rows come in',
  )

export const untilRowsWait = (dataDir: string, { ref }: HeldProject) =>
  eventually(
    async () =>
      (
        await ask(
          dataDir,
          'plinth',
          `select from pg_stat_activity where datname = '${ref}_recovered' and wait_event = 'PgSleep'`,
        )
      ).length > 0,
    'the rows of the copy wait',
  )

export interface Lock {
  /** Waits until a session with such a statement waits for the lock. */
  untilAwaited(statement?: string): Promise<void>
  release(): Promise<void>
}

/** Runs a statement in a transaction that stays open. */
export async function lock(dataDir: string, database: string, statement: string): Promise<Lock> {
  const client = await connectAsSuperuser(dataDir, database)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  await client.query('begin')
  await client.query(statement)
  return lockOf(dataDir, client, rows[0].pid)
}

/** Takes a lock that another session has, as soon as it ends. Resolves when it waits. */
export async function queueForLock(dataDir: string, database: string, statement: string): Promise<Lock> {
  const client = await connectAsSuperuser(dataDir, database)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const { pid } = rows[0]
  await client.query('begin')
  client.query(statement).catch(() => {})
  const waits = `select from pg_stat_activity where pid = ${pid} and wait_event_type = 'Lock'`
  await eventually(async () => (await ask(dataDir, 'plinth', waits)).length > 0, 'the lock is waited for')
  return lockOf(dataDir, client, pid)
}

function lockOf(dataDir: string, client: pg.Client, pid: number): Lock {
  return {
    untilAwaited: async (statement = '') => {
      const waits = `
        select from pg_stat_activity where ${pid} = any(pg_blocking_pids(pid)) and position('${statement}' in query) > 0`
      await eventually(
        async () => (await ask(dataDir, 'plinth', waits)).length > 0,
        'a session waits for the lock',
      )
    },
    release: () => client.end().catch(() => {}),
  }
}

/** The exchange of the databases renames this one. */
export const holdExchange = (dataDir: string, { ref }: HeldProject): Promise<Lock> =>
  lock(dataDir, 'plinth', `comment on database ${ref} is 'held'`)

/** As the command line does on the host. */
export async function cutOver(dataDir: string, id: string): Promise<void> {
  const client = await connectAsSuperuser(dataDir)
  const { host, port } = client
  await client.end()
  const password = secretsOf(dataDir)['POSTGRES_PASSWORD']!
  const address = { host, port, user: 'postgres', password, tls: undefined }
  await withClient(address, 'plinth', controlSettings, session => requestCutover(session, id))
}

/** Postmasters of second servers. */
export const secondServers = (dataDir: string): number[] =>
  recoveriesIn(dataDir).flatMap(name => postmastersIn(placeOf(dataDir, name).clusterDir))

const placeOf = (dataDir: string, name: string) => placeInside(locate(dataDir), name)

/**
 * Locks the notes on the second server, which is started twice. Resolves to true when the platform waits for them, and to
 * false if the job was over before.
 */
export async function holdSecondServer(
  platform: RunningPlatform,
  project: HeldProject,
  job: string,
): Promise<boolean> {
  const { dataDir } = platform
  for (;;) {
    const client = await lockedNotes(dataDir, project)
    if (client && (await isAwaited(client))) return true
    if (!client && (await jobOf(platform, project, job)).progress === null) return false
    await sleep(5)
  }
}

/** False if the server ends before. */
async function isAwaited(client: pg.Client): Promise<boolean> {
  // pg_stat_activity would stay the same within the transaction.
  const waits = `select from pg_locks where not granted and relation = 'public.notes'::regclass`
  try {
    while ((await client.query(waits)).rows.length === 0) await sleep(5)
    return true
  } catch {
    return false
  }
}

async function lockedNotes(dataDir: string, { ref }: HeldProject): Promise<pg.Client | undefined> {
  const client = await connectToSecondServer(dataDir, ref)
  try {
    await client?.query('begin')
    await client?.query('lock table public.notes in access exclusive mode')
    return client
  } catch {
    await client?.end().catch(() => {})
    return undefined
  }
}

/** As superuser. Undefined if it does not run, or does not accept connections yet. */
export async function connectToSecondServer(
  dataDir: string,
  database: string,
): Promise<pg.Client | undefined> {
  const [name] = recoveriesIn(dataDir)
  if (name === undefined) return
  const client = new pg.Client({
    host: placeOf(dataDir, name).socketDir,
    port: 5432,
    user: 'postgres',
    password: secretsOf(dataDir)['POSTGRES_PASSWORD']!,
    database,
    connectionTimeoutMillis: 10_000,
  })
  client.on('error', () => {})
  return client.connect().then(
    () => client,
    () => undefined,
  )
}

/** A killed platform begins its jobs again after the end of their lease. */
export const endLease = (dataDir: string) =>
  ask(dataDir, 'plinth', 'update pitr_jobs set leased_until = now() where leased_until is not null')

/** Waits until a job is over. Postgres may be starting meanwhile. */
export const untilEnded = (platform: RunningPlatform, project: HeldProject, id: string): Promise<PitrJob> =>
  eventually(async () => {
    const job = await jobOf(platform, project, id).catch(() => undefined)
    return job?.progress === null && job
  }, 'the job is over')

export async function assertEnded(
  platform: RunningPlatform,
  project: HeldProject,
  id: string,
  expected: PitrStatus,
): Promise<void> {
  const { status, error } = await untilEnded(platform, project, id)
  assert.deepEqual([error, status], [null, expected])
}

interface Expected {
  /** What follows the name of the project. */
  databases: readonly string[]
  /** The prepared job, if there is one. */
  archiveOf?: string
  numbers: readonly number[]
}

/** Nothing else of the recoveries is left, and the project has these rows. */
export async function assertLeft(platform: RunningPlatform, project: HeldProject, expected: Expected) {
  const { dataDir } = platform
  const databases = async () =>
    (
      await ask(
        dataDir,
        'plinth',
        `select datname from pg_database where starts_with(datname, '${project.ref}') order by 1`,
      )
    ).map(({ datname }) => datname.slice(project.ref.length))
  await eventually(
    async () => isDeepStrictEqual(await databases(), expected.databases),
    `the databases of the project are ${expected.databases.join(', ')}`,
  )
  assert.deepEqual(recoveriesIn(dataDir), [])
  const copies = join(dataDir, 'recovered', project.id)
  const files = () =>
    fs.existsSync(copies)
      ? fs.readdirSync(copies, { recursive: true, withFileTypes: true }).filter(each => each.isFile())
      : []
  if (expected.archiveOf) {
    const ofAttempt = `select manifest ->> 'attempt' as attempt from pitr_jobs where id = '${expected.archiveOf}'`
    const [{ attempt }] = await ask(dataDir, 'plinth', ofAttempt)
    assert.ok(files().length > 0)
    for (const { name } of files()) assert.ok(name.startsWith(`${expected.archiveOf}-${attempt}-`), name)
  } else await eventually(() => files().length === 0, 'no archive of a copy is left')
  const roles = `select from pg_roles where starts_with(rolname, '${project.ref}') and rolcanlogin`
  assert.equal((await ask(dataDir, 'plinth', roles)).length, 4)
  const running = `
    select from backups where project_id = '${project.id}' and status = 'running'
     union all select from restores where project_id = '${project.id}' and status = 'running'
     union all select from pitr_jobs where leased_until is not null`
  assert.deepEqual(await ask(dataDir, 'plinth', running), [])
  assert.deepEqual(await notes(platform, project), expected.numbers)
}
