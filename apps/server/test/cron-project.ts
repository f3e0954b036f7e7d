// A project for tests of scheduled jobs, whose ticks the test triggers.
import assert from 'node:assert/strict'
import type { Job, Run } from '@plinth/contract/cron.ts'
import pg from 'pg'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import type { TestPlatform } from './harness.ts'

/** A schedule that is not due during a test. */
export const seldom = '0 0 29 2 *'

export class CronProject {
  readonly platform: TestPlatform
  readonly id: string
  readonly ref: string
  readonly key: string
  constructor(platform: TestPlatform, id: string, ref: string, key: string) {
    this.platform = platform
    this.id = id
    this.ref = ref
    this.key = key
  }

  static async create(platform: TestPlatform): Promise<CronProject> {
    const { id, service_role_key } = await platform.createProject()
    return new CronProject(platform, id, await platform.refOf(id), service_role_key)
  }

  call(method: string, path: string, body?: unknown) {
    return this.platform.call(method, `/v1/cron/${this.id}/jobs${path}`, { token: this.key, body })
  }
  async schedule(name: string, command: string, schedule = seldom): Promise<Job> {
    const reply = await this.call('POST', '', { name, schedule, command })
    assert.equal(reply.status, 201, JSON.stringify(reply.body))
    return reply.body
  }
  async job(name: string): Promise<Job> {
    const { body } = await this.call('GET', '')
    return body.find((each: Job) => each.name === name)
  }
  async runs(name: string): Promise<Run[]> {
    return (await this.call('GET', `/${name}/runs`)).body
  }
  async statuses(name: string): Promise<string[]> {
    return (await this.runs(name)).map(({ status }) => status)
  }

  /** Moves the next ticks to now or to `at`, and makes the given nodes poll. Without names it moves those of all jobs. */
  async tick(
    names: string | readonly string[] | undefined,
    at = 'now()',
    nodes = [this.platform],
  ): Promise<void> {
    await this.inControl(
      `update jobs set next_run_at = ${at} where project_id = '${this.id}'
        ${names === undefined ? '' : `and name = any('{${[names].flat().join(',')}}')`}`,
    )
    for (const { app } of nodes) app.directory.forget(this.id)
  }
  /** Triggers a tick and waits for the end of its run. */
  async run(name: string): Promise<Run> {
    const before = (await this.runs(name))[0]?.runid ?? 0
    await this.tick(name)
    return this.over(name, before)
  }
  /** Waits until the newest run is a new one and has ended. */
  over(name: string, before = 0): Promise<Run> {
    return eventually(async () => {
      const [newest] = await this.runs(name)
      return newest && newest.runid > before && newest.end_time !== null ? newest : undefined
    }, `a run of ${name} has ended`)
  }
  /** Waits until its statement runs in the database. */
  underWay(name: string): Promise<{ pid: number }> {
    return eventually(async () => {
      const [found] = await this.inControl<{ pid: number }>(`
        select a.pid from job_runs r join jobs j on j.id = r.job_id
          join pg_stat_activity a on a.pid = r.backend_pid and a.state = 'active' and a.query ~ 'pg_|loop'
         where j.project_id = '${this.id}' and j.name = '${name}' and r.status = 'running'`)
      return found
    }, `${name} is running`)
  }

  inControl<T>(text: string): Promise<T[]> {
    return this.platform.app.control.rows<T>(raw(text))
  }
  look = <T>(text: string): Promise<T[]> =>
    this.platform.asSuperuser(this.ref, session => session.rows<T>(raw(text)))
  /** Runs SQL as the owner and returns the rows of the last statement. */
  async sql(text: string): Promise<any[]> {
    const reply = await this.platform.call('POST', `/v1/rest/${this.id}/rpc/exec_sql`, {
      token: this.key,
      apikey: this.key,
      body: { sql: text },
    })
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    return reply.body
  }
  async hasSession(pid: number): Promise<boolean> {
    return (await this.look(`select from pg_stat_activity where pid = ${pid}`)).length > 0
  }

  /** Jobs that run `waitAtGate` wait until the gate is opened. */
  async gate(): Promise<Gate> {
    const { host, port, user, password } = this.platform.address
    const client = new pg.Client({ host, port, user, password, database: this.ref })
    client.on('error', () => {}) // its project may be deleted
    await client.connect()
    // A test that fails leaves its gate closed, and those after it must not wait for it without end.
    await client.query(`set lock_timeout = '60s'; select pg_advisory_lock(1)`)
    ;(client as pg.Client & { unref(): void }).unref()
    return { open: () => client.end().catch(() => {}) }
  }
}

export interface Gate {
  open(): Promise<void>
}
export const waitAtGate = 'select pg_advisory_xact_lock_shared(1)'

/** A loop that ignores cancellation and every timeout it can disable itself. */
export const stubborn = `
  set statement_timeout = 0;
  set client_connection_check_interval = 0;
  do $$ begin
    loop
      begin
        perform pg_sleep(100);
      exception when query_canceled then
        null;
      end;
    end loop;
  end $$`

/** Active runs of all projects. */
export const runningNow = (platform: TestPlatform) =>
  platform.app.control.rows<{ project_id: string; backend_pid: number | null }>(
    sql`select j.project_id, r.backend_pid from job_runs r join jobs j on j.id = r.job_id where r.status = 'running'`,
  )
