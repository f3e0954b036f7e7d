// A project for tests of its schema.
import type { OwnSession } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import type { TestPlatform } from './harness.ts'

export interface Sent {
  version: string
  name?: string
  sql: string
}

/** A project with its schema routes and superuser access to its database. */
export class Project {
  readonly id: string
  readonly ref: string
  readonly platform: TestPlatform
  constructor(platform: TestPlatform, id: string, ref: string) {
    this.platform = platform
    this.id = id
    this.ref = ref
  }
  static async create(platform: TestPlatform): Promise<Project> {
    const { id } = await platform.createProject()
    return new Project(platform, id, await platform.refOf(id))
  }
  manage(method: string, path: string, body?: unknown) {
    const { adminToken } = this.platform
    return this.platform.call(method, `/api/v1/projects/${this.id}${path}`, { token: adminToken, body })
  }
  push = (...migrations: Sent[]) => this.manage('POST', '/db/push', { migrations })
  plan = (...migrations: Sent[]) => this.manage('POST', '/db/plan', { migrations })
  reset = (body?: unknown) => this.manage('POST', '/db/reset', body)
  async applied(): Promise<string[]> {
    const { body } = await this.manage('GET', '/db/migrations')
    return body.migrations.map((each: { version: string }) => each.version)
  }
  look<T>(statement: SqlFragment): Promise<T[]> {
    return this.platform.asSuperuser(this.ref, session => session.rows<T>(statement))
  }
  async tables(): Promise<string[]> {
    const rows = await this.look<{ name: string }>(
      sql`select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') order by 1`,
    )
    return rows.map(({ name }) => name)
  }
  asOwner = <T>(work: (session: OwnSession) => Promise<T>) => this.platform.app.databases.asOwner(this, work)
}
