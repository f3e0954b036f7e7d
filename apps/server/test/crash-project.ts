// A project whose tasks of backups can be stopped, because they wait for a lock of the test or run a function of the project
// that waits. What must hold after a crash is checked here. The steps are in backup-crash-steps.ts.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { join } from 'node:path'
import type { Backup, MadeProject, Restore } from '@plinth/contract/backups.ts'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import pg from 'pg'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { restoredOf, verifyOf } from '#src/tenancy/provision.ts'
import { eventually } from './eventually.ts'
import { call, type Reply, type TestPlatform } from './harness.ts'

/** What is killed, and how it comes back. */
export interface Stage {
  url(): string
  manage(method: string, path: string, body?: unknown): Promise<Reply>
  /** The superuser of Postgres. */
  address: ServerAddress
  control: string
  dataDir: string
  kill(): Promise<void>
  /** Starts it again. The task can be begun again at once. */
  revive(): Promise<void>
}

/** A platform in this process, which cannot be killed. */
export const stageOf = (platform: TestPlatform): Stage => ({
  url: () => platform.url,
  manage: (method, path, body) =>
    platform.call(method, `/api/v1${path}`, { token: platform.adminToken, body }),
  address: platform.address,
  control: platform.control,
  dataDir: platform.config.dataDir,
  kill: async () => {},
  revive: async () => {},
})

export type Kind = 'backup' | 'verification' | 'restore' | 'undo' | 'new_project'

export interface Lock {
  /** Waits until a session waits for the lock. */
  untilAwaited(): Promise<void>
  release(): Promise<void>
}

const catalogues: Record<string, string> = { datname: 'pg_database', rolname: 'pg_roles' }
const file = Buffer.alloc(200_000, 'a file of the project ')

/** One project whose tasks are stopped. */
export class CrashProject {
  readonly stage: Stage
  #project!: CreatedProject
  ref = ''
  backupId = ''
  /** The last project that was made from the backup. */
  made: MadeProject | undefined
  /** Of the last restore: the rows that the backup did not have. */
  rowsBeforeRestore = 0
  #looking: pg.Client | undefined
  readonly #undo: (() => Promise<unknown>)[] = []
  constructor(stage: Stage) {
    this.stage = stage
  }

  /** The owner may create schemas in these while its function waits. */
  get #signals() {
    return { rows: this.stage.control, index: `${this.stage.control}_template` }
  }

  get id(): string {
    return this.#project.id
  }

  async connect(database: string): Promise<pg.Client> {
    const { host, port, user, password } = this.stage.address
    const client = new pg.Client({ host, port, user, password, database })
    client.on('error', () => {})
    await client.connect()
    this.#undo.push(() => client.end().catch(() => {}))
    return client
  }

  /** Rows of the control database or the catalogue. Connects again after a crash of Postgres. */
  async look<T extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<T[]> {
    try {
      this.#looking ??= await this.connect(this.stage.control)
      return (await this.#looking.query<T>(text, values)).rows
    } catch (error) {
      this.#looking = undefined
      throw error
    }
  }

  async ask(method: string, path: string, body?: unknown): Promise<any> {
    const reply = await this.stage.manage(method, `/projects/${this.id}${path}`, body)
    assert.ok(reply.status < 300, `${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`)
    return reply.body
  }

  data(method: string, path: string, init: { body?: unknown; headers?: Record<string, string> } = {}) {
    const key = this.#project.service_role_key
    return call(`${this.stage.url()}/v1/${path.replace('*', this.id)}`, method, {
      apikey: key,
      token: key,
      ...init,
    })
  }

  fetch(path: string, init: { method?: string; headers?: Record<string, string>; body?: Buffer } = {}) {
    const headers = { apikey: this.#project.service_role_key, ...init.headers }
    return fetch(`${this.stage.url()}/v1/${path.replace('*', this.id)}`, { ...init, headers })
  }

  async sql(text: string): Promise<void> {
    const reply = await this.data('POST', 'rest/*/rpc/exec_sql', { body: { sql: text } })
    assert.ok(reply.status < 300, JSON.stringify(reply.body))
  }

  /** Rows that the backup does not have. */
  async laterRows(): Promise<number> {
    const reply = await this.data('GET', 'rest/*/things?select=id&id=gt.1000')
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    return reply.body.length
  }

  async create(): Promise<void> {
    const created = await this.stage.manage('POST', '/projects', { name: 'crashing' })
    assert.equal(created.status, 201, JSON.stringify(created.body))
    this.#project = created.body
    this.ref = (await this.look<{ ref: string }>('select ref from projects where id = $1', [this.id]))[0]!.ref
    // It runs in several databases, so it waits for something that all of them see.
    const held = (what: 'rows' | 'index') => `has_database_privilege('${this.#signals[what]}', 'create')`
    await this.sql(`
      create function wait_for_rows(n int) returns boolean language plpgsql as
        $$ begin while ${held('rows')} loop perform pg_sleep(0.02); end loop; return true; end $$;
      create function wait_for_index(n int) returns int language plpgsql immutable as
        $$ begin while ${held('index')} loop perform pg_sleep(0.02); end loop; return n; end $$;
      create table things (id int primary key, text text);
      insert into things select n, md5(n::text) from generate_series(1, 1000) n;
      create table slow (id int check (wait_for_rows(id)));
      insert into slow values (1);
      create index slow_index on slow (wait_for_index(id));
      select lo_from_bytea(0, 'a large object');
      insert into storage.buckets (id, name) values ('papers', 'papers')`)
    await this.upload('one.txt')
    await this.ask('PUT', '/backups/settings', { verify_enabled: false })
    const backup: Backup = await this.ask('POST', '/backups')
    this.backupId = backup.id
    await this.untilIdle()
    assert.equal((await this.backup(backup.id)).error, null)
  }

  async upload(name: string, body = file): Promise<void> {
    const headers = { 'content-type': 'text/plain' }
    const answer = await this.fetch(`storage/*/object/papers/${name}`, { method: 'POST', headers, body })
    assert.equal(answer.status, 200, await answer.text())
  }

  async backup(id: string): Promise<Backup> {
    const { backups } = await this.ask('GET', '/backups?limit=100')
    return backups.find((each: Backup) => each.id === id)
  }

  async lastRestore(): Promise<Restore> {
    return (await this.ask('GET', '/restores?limit=1')).restores[0]
  }

  /** Waits until neither the project nor one that is made from it has a task. */
  async untilIdle(): Promise<void> {
    const tasks = () =>
      this.look(
        `select from backup_tasks t left join restores r on r.id = t.restore_id
          where t.project_id = $1 or r.project_id = $1`,
        [this.id],
      )
    await eventually(async () => {
      const found = await tasks().catch(() => undefined)
      return found !== undefined && found.length === 0
    }, 'the task has ended')
  }

  /** Runs a statement in a transaction that stays open. */
  async lock(database: string, statement: string): Promise<Lock> {
    const client = await this.connect(database)
    const { rows } = await client.query('select pg_backend_pid() as pid')
    await client.query('begin')
    await client.query(statement)
    return {
      untilAwaited: () => this.#untilBlocking(rows[0].pid),
      release: async () => void (await client.query('rollback').catch(() => {})),
    }
  }

  /** Waits in the queue for the row of the task, and keeps it from then on. */
  async queueForTask(): Promise<Lock> {
    const client = await this.connect(this.stage.control)
    const { rows } = await client.query('select pg_backend_pid() as pid')
    await client.query('begin')
    client.query('select from backup_tasks where project_id = $1 for update', [this.id]).catch(() => {})
    await eventually(
      async () =>
        (
          await this.look('select from pg_stat_activity where pid = $1 and wait_event_type = $2', [
            rows[0].pid,
            'Lock',
          ])
        ).length === 1,
      'the session waits for the row',
    )
    return {
      untilAwaited: () => this.#untilBlocking(rows[0].pid),
      release: async () => void client.query('rollback').catch(() => {}),
    }
  }

  async #untilBlocking(pid: number): Promise<void> {
    const blocked = 'select from pg_stat_activity where $1 = any(pg_blocking_pids(pid))'
    await eventually(async () => (await this.look(blocked, [pid])).length > 0, 'a session waits for the lock')
  }

  /** Lets a function of the project wait, wherever its database is restored. For a new project its role is not known yet. */
  async holdFunction(what: 'rows' | 'index', role = `${this.ref}_owner`): Promise<Lock> {
    const right = `create on database ${this.#signals[what]}`
    await this.look(`grant ${right} to ${role}`)
    const running = `select pid from pg_stat_activity where wait_event = 'PgSleep' and datname = any(
      $1::text[] || (select array_agg(ref) from projects where id = $2))`
    const copies = [verifyOf(this.ref), restoredOf(this.ref)]
    return {
      untilAwaited: () =>
        eventually(
          async () => (await this.look(running, [copies, this.made?.id])).length > 0,
          'the function of the project waits',
        ).then(() => {}),
      release: async () => {
        const revoke = () =>
          this.look(`revoke ${right} from ${role}`).then(
            () => true,
            () => false,
          )
        await eventually(revoke, 'the function goes on')
      },
    }
  }

  async begin(kind: Kind, restoreId?: string): Promise<void> {
    const path = {
      backup: '/backups',
      verification: `/backups/${this.backupId}/verify`,
      restore: `/backups/${this.backupId}/restore`,
      undo: `/restores/${restoreId}/undo`,
      new_project: `/backups/${this.backupId}/restore`,
    }[kind]
    const body = kind === 'new_project' ? { new_project: { name: 'made' } } : undefined
    const answer = await this.ask('POST', path, body)
    if (kind === 'new_project') this.made = answer.project
  }

  /** No database, role, session or file is left that nothing needs, and the project serves. */
  async assertClean(): Promise<void> {
    const undoable = await this.look(
      'select from restores where project_id = $1 and undo_until is not null and status = $2',
      [this.id, 'done'],
    )
    const databases = await this.look<{ datname: string }>(
      'select datname from pg_database where starts_with(datname, $1) order by 1',
      [this.ref],
    )
    assert.deepEqual(
      databases.map(({ datname }) => datname.slice(this.ref.length)),
      undoable.length > 0 ? ['', '_before'] : [''],
    )
    const roles = await this.look('select from pg_roles where starts_with(rolname, $1) and rolcanlogin', [
      this.ref,
    ])
    assert.equal(roles.length, 4)
    const running = `select from backups where project_id = $1 and status = 'running'`
    assert.deepEqual(await this.look(running, [this.id]), [], 'no backup is said to be running')
    await eventually(async () => (await this.#stray()).length === 0, 'no file is left')
    const rows = await this.data('GET', 'rest/*/things?select=id')
    assert.equal(rows.status, 200, JSON.stringify(rows.body))
    const files = await this.data('GET', 'storage/*/object/papers/one.txt')
    assert.deepEqual([files.status, files.body.length], [200, file.length])
  }

  /** The last project that was made from the backup is complete and served. It is deleted. */
  async assertMade(): Promise<void> {
    const { id, service_role_key: key } = this.made!
    const { status, error, new_project_id: newId } = await this.lastRestore()
    assert.deepEqual([status, error, newId], ['done', null, id])
    const [{ ref } = { ref: '' }] = await this.look<{ ref: string }>(
      `select ref from projects where id = $1 and status = 'active'`,
      [id],
    )
    const left = (what: string) =>
      this.look<{ name: string }>(
        `select ${what} as name from ${catalogues[what]} where starts_with(${what}, $1)`,
        [ref],
      )
    assert.equal((await left('datname')).length, 1)
    assert.equal((await left('rolname')).length, 4)
    const url = `${this.stage.url()}/v1`
    const given = { apikey: key, token: key }
    const rows = await call(`${url}/rest/${id}/things?select=id`, 'GET', given)
    assert.deepEqual([rows.status, rows.body.length], [200, 1000])
    const files = await call(`${url}/storage/${id}/object/papers/one.txt`, 'GET', given)
    assert.deepEqual([files.status, files.body.length], [200, file.length])
    const deleted = await this.stage.manage('DELETE', `/projects/${id}`)
    assert.ok(deleted.status < 300, JSON.stringify(deleted.body))
    await eventually(
      async () => (await left('datname')).length === 0,
      'the database of the new project is dropped',
    )
    await eventually(async () => (await left('rolname')).length === 0, 'its roles are dropped')
  }

  /** Files in the store of attempts that no backup consists of. */
  async #stray(): Promise<string[]> {
    const done = await this.look<{ id: string; attempt: number }>(
      `select id, (manifest ->> 'attempt')::int as attempt from backups where project_id = $1 and status = 'done'`,
      [this.id],
    )
    const needed = done.map(({ id, attempt }) => `${id}-${attempt.toString(16)}-`)
    return fs
      .readdirSync(join(this.stage.dataDir, 'backups', this.id), { recursive: true, withFileTypes: true })
      .filter(each => each.isFile() && /^[0-9a-f-]{36}-/.test(each.name))
      .map(({ name }) => name)
      .filter(name => !needed.some(prefix => name.startsWith(prefix)))
  }

  async close(): Promise<void> {
    for (const step of this.#undo.splice(0)) await step()
  }
}
