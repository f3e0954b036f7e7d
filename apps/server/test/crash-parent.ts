// A project whose branches can be stopped while they are created, reset and deleted, and what must hold after a crash. The steps
// are in branch-crash-steps.ts.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import { join } from 'node:path'
import type { Branch, CreatedBranch } from '@plinth/contract/branches.ts'
import { CrashProject, type Lock, type Stage } from './crash-project.ts'
import { eventually } from './eventually.ts'
import { call } from './harness.ts'

const rows = 1000
/** Of a project, a task, or the code of a function in the object store. */
const isFolder = /^([0-9a-f-]{36}|f-[0-9a-f]{40})$/
const codeFolder = (project: string, archive: string) =>
  `f-${createHash('sha256').update(`${project} ${archive}`).digest('hex').slice(0, 40)}`

export class CrashParent extends CrashProject {
  branch!: CreatedBranch
  branchRef = ''
  /** What clears up after a reset runs every 30 seconds. */
  readonly #dropLeft: () => Promise<void>

  constructor(stage: Stage, dropLeft: () => Promise<void>) {
    super(stage)
    this.#dropLeft = dropLeft
  }

  override async create(): Promise<void> {
    await super.create()
    // Deleting each branch would take longer than its test.
    await this.ask('PATCH', '', { quotas: { max_branches: 100 } })
    const code = `Deno.serve(() => new Response('hello'))`
    await this.ask('POST', '/functions', { name: 'greet', code })
  }

  async createBranch(name: string): Promise<void> {
    this.branch = await this.ask('POST', '/branches', { name })
    const [found] = await this.look<{ ref: string }>('select ref from projects where id = $1', [
      this.branch.id,
    ])
    this.branchRef = found!.ref
  }

  readBranch = (): Promise<Branch> => this.ask('GET', `/branches/${this.branch.slug}`)

  /** Databases and roles of the branch, without its name in the server. */
  async namesOf(ref: string): Promise<string[]> {
    const found = await this.look<{ name: string }>(
      `select datname as name from pg_database where starts_with(datname, $1)
       union all select rolname from pg_roles where starts_with(rolname, $1)`,
      [ref],
    )
    return found.map(({ name }) => name.slice(ref.length)).toSorted()
  }

  /** Lets a check of a table wait while rows come in, whatever database of the branch is filled. */
  async holdRows(): Promise<Lock> {
    const right = `create on database ${this.stage.control}`
    // The roles of the branch are made later.
    await this.look(`grant ${right} to public`)
    return {
      untilAwaited: async () =>
        void (await eventually(
          async () =>
            (
              await this.look(
                `select from pg_stat_activity where wait_event = 'PgSleep' and starts_with(datname, $1)`,
                [this.branchRef],
              )
            ).length > 0,
          'the check of the table waits',
        )),
      release: async () => {
        const revoke = () => this.look(`revoke ${right} from public`)
        await eventually(() => revoke().catch(() => undefined), 'the check goes on')
      },
    }
  }

  /** Folders of code that the branch would have. */
  async codeOfBranch(): Promise<string[]> {
    const found = await this.look<{ id: string }>('select id from function_archives where project_id = $1', [
      this.id,
    ])
    return found.map(({ id }) => codeFolder(this.branch.id, id))
  }

  hasFolder(name: string): boolean {
    return fs.existsSync(join(this.stage.dataDir, 'objects', name))
  }

  /** Folders that belong to no project. */
  async strayFolders(): Promise<string[]> {
    const found = await this.look<{ id: string; archive: string | null }>(
      `select p.id, a.id as archive from projects p left join function_archives a on a.project_id = p.id
        where p.status <> 'deleted'`,
    )
    const known = new Set(
      found.flatMap(({ id, archive }) => [id, ...(archive ? [codeFolder(id, archive)] : [])]),
    )
    return fs
      .readdirSync(join(this.stage.dataDir, 'objects'))
      .filter(each => isFolder.test(each) && !known.has(each))
  }

  async #hasLock(): Promise<boolean> {
    const found = await this.look(
      `select from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = $1)
          and (classid::bigint << 32) | objid::bigint = hashtextextended($2, 0)`,
      [this.stage.control, this.branch.id],
    )
    return found.length > 0
  }

  /** Until the task of the branch has ended and its folder was removed. */
  async untilEnded(): Promise<void> {
    const task = () =>
      this.look('select from branch_tasks where branch_id = $1', [this.branch.id]).catch(() => undefined)
    await eventually(async () => (await task())?.length === 0, 'the task has ended')
  }

  /** The branch has the rows and files of its parent, one database and four roles, and nothing else is left. */
  async assertComplete(): Promise<void> {
    await this.untilEnded()
    const { status, error, progress } = await this.readBranch()
    assert.deepEqual([status, error, progress], ['active', null, null])
    if ((await this.namesOf(this.branchRef)).length > 5) await this.#dropLeft()
    assert.deepEqual(await this.namesOf(this.branchRef), ['', '_api', '_auth', '_owner', '_svc'])
    assert.deepEqual(await this.strayFolders(), [])
    await eventually(async () => !(await this.#hasLock()), 'no lock is left')
    const { id, service_role_key: key } = this.branch
    const given = { apikey: key, token: key }
    const { body } = await call(`${this.stage.url()}/v1/rest/${id}/things?select=count`, 'GET', given)
    assert.deepEqual(body, [{ count: rows }])
    const file = await call(`${this.stage.url()}/v1/storage/${id}/object/papers/one.txt`, 'GET', given)
    assert.equal(file.status, 200)
    // The parent is served.
    assert.equal((await this.data('GET', 'rest/*/things?select=count')).status, 200)
  }

  /** After the deletion. On a slow server the database is dropped after the answer. */
  async assertRemoved(): Promise<void> {
    const isGone = async () => {
      const left = await this.namesOf(this.branchRef).catch(() => undefined)
      return left?.length === 0
    }
    await eventually(isGone, 'no database and no role is left')
    await eventually(async () => (await this.strayFolders()).length === 0, 'no folder is left')
    await eventually(async () => !(await this.#hasLock()), 'no lock is left')
    const path = `/projects/${this.id}/branches/${this.branch.slug}`
    await eventually(async () => (await this.stage.manage('GET', path)).status === 404, 'it is not found')
  }

  async deleteBranch(): Promise<void> {
    await this.ask('DELETE', `/branches/${this.branch.slug}`)
    await this.assertRemoved()
  }
}
