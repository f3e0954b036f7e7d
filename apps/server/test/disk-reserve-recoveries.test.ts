// A recovery to a time ends before it takes the disk space that Postgres needs.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { client } from '@plinth/contract/client.ts'
import { type PitrJob, pitrApi } from '@plinth/contract/pitr.ts'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import pg from 'pg'
import { placeInside } from '#src/kernel/postgres/engine/place.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

const reserve = 'PLATFORM_DISK_RESERVE_MB'
const skip = process.platform !== 'linux' && 'needs a file system without space'

describe('pitr: once the disk reserve is reached, a recovery', { skip }, () => {
  let server: OwnServer
  let platform: TestPlatform
  let pitr: ReturnType<typeof client<typeof pitrApi>>
  let project: CreatedProject
  let ref: string
  /** The platform measures the disk here. */
  const clusterDir = mkdtempSync(join(tmpdir(), 'plinth-recovery-reserve-'))
  const measure = (path: string) => {
    rmSync(join(clusterDir, 'pg_wal'), { force: true })
    symlinkSync(path, join(clusterDir, 'pg_wal'))
  }
  /** This file system has no free space. */
  const fillDisk = () => measure('/proc')
  const isFull = async () => {
    const { body } = await platform.call('GET', '/api/v1/health/services', { token: platform.adminToken })
    return JSON.stringify(body).includes(reserve)
  }

  async function emptyDisk() {
    measure(clusterDir)
    await eventually(async () => !(await isFull()), 'there is space')
  }

  before(async () => {
    measure(clusterDir)
    server = await startOwnServer({ full_page_writes: 'on' })
    const settings = { PLATFORM_PITR: 'on', [reserve]: '1' }
    platform = await startPlatform({ server, clusterDir, settings })
    pitr = client(pitrApi, { baseUrl: platform.url, token: platform.adminToken })
    project = await platform.createProject()
    ref = await platform.refOf(project.id)
    const { status, body } = await platform.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
      token: project.service_role_key,
      body: {
        sql: `
          create function slow(n int) returns int language plpgsql immutable as $$ begin
            if current_database() like '%recovered' then perform pg_sleep(3600); end if;
            return n;
          end $$;
          create table notes (n int, m int generated always as (slow(n)) stored);
          insert into notes values (1)`,
      },
    })
    assert.ok(status < 300, JSON.stringify(body))
    await eventually(async () => {
      const { window } = await pitr.restorePoints({ params: { id: project.id } })
      return window !== null && window !== undefined
    }, 'the first base backup is made')
  })
  beforeEach(() => emptyDisk())
  after(async () => {
    await platform?.stop()
    await server?.stop()
    rmSync(clusterDir, { recursive: true, force: true })
  })

  async function begin(): Promise<string> {
    const { at } = (await platform.app.control.row<{ at: string }>(
      sql`select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
    ))!
    const { job } = await pitr.restore({ params: { id: project.id }, body: { target_time: at } })
    return job.id
  }

  async function ended(id: string): Promise<PitrJob> {
    let found: PitrJob | undefined
    await eventually(async () => {
      const { jobs } = await pitr.jobs({ params: { id: project.id }, query: { limit: 100 } })
      found = jobs.find(each => each.id === id)
      return found?.progress === null
    }, 'the job is over')
    return found!
  }

  const recoveries = () => readdirSync(server.place.home).filter(name => name.startsWith('recovery-'))

  async function assertFailed(id: string) {
    const { status, error } = await ended(id)
    assert.equal(status, 'failed')
    assert.match(error!, new RegExp(reserve))
    assert.deepEqual(recoveries(), [])
    assert.deepEqual(
      await platform.app.control.rows(
        sql`select datname from pg_database where starts_with(datname, ${ref}) and datname <> ${ref}`,
      ),
      [],
    )
  }

  test('does not begin', async () => {
    fillDisk()
    await eventually(isFull, 'the disk is full')
    const id = await begin()
    await assertFailed(id)
  })

  const asleep = () =>
    platform.app.control.row(
      sql`select from pg_stat_activity where datname = ${`${ref}_recovered`} and wait_event = 'PgSleep'`,
    )

  test('ends, and the second server is removed', async () => {
    for (;;) {
      const id = await begin()
      const holder = await lockedNotes()
      fillDisk()
      await assertFailed(id).finally(() => holder?.end().catch(() => {}))
      if (holder) return
      await emptyDisk()
    }
  })

  test('ends, and the copy is dropped', async () => {
    const id = await begin()
    await eventually(asleep, 'rows of the copy come in')
    fillDisk()
    await assertFailed(id)
  })

  /** On the second server, which is started twice, and waits for them then. Undefined if they were read before. */
  async function lockedNotes(): Promise<pg.Client | undefined> {
    while (!(await asleep())) {
      const holder = await tryLock()
      // A transaction sees the same sessions in pg_stat_activity until it ends.
      const waits = 'select from pg_locks where not granted'
      for (let isOpen = holder !== undefined; isOpen; await sleep(5)) {
        const found = await holder!.query(waits).catch(() => undefined)
        if (found && found.rows.length > 0) return holder
        isOpen = found !== undefined
      }
      await sleep(5)
    }
    return
  }

  async function tryLock(): Promise<pg.Client | undefined> {
    const [name] = recoveries()
    if (name === undefined) return
    const { socketDir } = placeInside(server.place, name)
    const { user, password } = server.address
    const holder = new pg.Client({ host: socketDir, port: 5432, user, password, database: ref })
    holder.on('error', () => {})
    try {
      await holder.connect()
      await holder.query('begin; lock table public.notes in access exclusive mode')
      return holder
    } catch {
      await holder.end().catch(() => {})
      return undefined
    }
  }
})
