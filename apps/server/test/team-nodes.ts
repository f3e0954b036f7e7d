// Two nodes with users and projects, and calls of the team routes.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import type { PlatformRole } from '@plinth/contract/platform.ts'
import type { MemberRole } from '@plinth/contract/team.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

export interface Person {
  id: string
  email: string
  session: string
}

export const statusAndCode = ({ status, body }: Reply) => [status, body?.error?.code]
export const statuses = (replies: Reply[]) => replies.map(({ status }) => status)

export function teamNodes() {
  const nodes = {} as {
    platform: TestPlatform
    /** A second node on the same control database. */
    beside: TestPlatform
  }
  before(async () => {
    // Each user logs in from its own IP address.
    const settings = { PLATFORM_TRUSTED_PROXIES: '127.0.0.1/32' }
    nodes.platform = await startPlatform({ settings })
    nodes.beside = await startPlatform({ settings, beside: nodes.platform })
  })
  after(async () => {
    await nodes.beside?.stop()
    await nodes.platform?.stop()
  })

  const api = (
    method: string,
    path: string,
    body?: unknown,
    token = nodes.platform.adminToken,
    node = nodes.platform,
  ): Promise<Reply> => node.call(method, `/api/v1${path}`, { token, ...(body !== undefined && { body }) })

  let people = 0
  return {
    nodes,
    /** A new user who is logged in. */
    async person(role: PlatformRole = 'project_admin'): Promise<Person> {
      const n = ++people
      const login = { email: `person${n}@example.test`, password: 'a long enough password' }
      const { id, email } = await nodes.platform.admin.createUser({ body: { ...login, role } })
      const headers = { 'x-forwarded-for': `10.0.${n >> 8}.${n & 255}` }
      const { status, body } = await nodes.platform.call('POST', '/api/v1/platform/login', {
        body: login,
        headers,
      })
      assert.equal(status, 200)
      return { id, email, session: body.token }
    },
    newProject: async () => (await nodes.platform.createProject()).id,
    /** Makes the user a member with this role. */
    seat: (project: string, user: string, role: MemberRole) =>
      nodes.platform.app.control.run(sql`
        insert into members (project_id, user_id, role) values (${project}, ${user}, ${role})
        on conflict (project_id, user_id) do update set role = excluded.role`),
    /** The roles of all members by user id. */
    async seats(project: string): Promise<Record<string, MemberRole>> {
      const rows = await nodes.platform.app.control.rows<{ user_id: string; role: MemberRole }>(
        sql`select user_id, role from members where project_id = ${project}`,
      )
      return Object.fromEntries(rows.map(({ user_id, role }) => [user_id, role]))
    },
    api,
    invite: (project: string, body: unknown, token?: string) =>
      api('POST', `/projects/${project}/invites`, body, token),
    setRole: (project: string, user: string, role: MemberRole, token?: string, node?: TestPlatform) =>
      api('PATCH', `/projects/${project}/members/${user}`, { role }, token, node),
    remove: (project: string, user: string, token?: string, node?: TestPlatform) =>
      api('DELETE', `/projects/${project}/members/${user}`, undefined, token, node),
  }
}
