// A project in which the owner creates relations, and its roles read them.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import type { Role } from '@plinth/contract/route.ts'
import { identifier, literal, raw } from '#src/kernel/postgres/sql.ts'
import { statement } from '#src/tenancy/databases.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

export const roles: readonly Role[] = ['anon', 'authenticated', 'service_role']
/** SQLSTATE insufficient_privilege. */
export const denied = '42501'

export function tableDefaultsProject() {
  const stage = {} as { platform: TestPlatform; project: CreatedProject; ref: string }
  before(async () => {
    stage.platform = await startPlatform()
    stage.project = await stage.platform.createProject()
    stage.ref = await stage.platform.refOf(stage.project.id)
  })
  after(() => stage.platform?.stop())

  async function asRole(
    role: Role,
    text: string,
    { to = stage.project, claims = { role } as object, values = [] as string[] } = {},
  ) {
    const { directory, databases } = stage.platform.app
    const tenant = (await directory.find(to.id))!
    const { rows } = await databases.asCaller(
      { tenant, role, claims: JSON.stringify(claims), userId: '', sessionId: '' },
      { method: 'GET', path: '/', headers: '{}' },
      statement(text, false),
      values,
    )
    return rows.map(row => row.map(cell => cell?.toString() ?? null))
  }

  const asSuperuser = <T>(text: string, ref = stage.ref) =>
    stage.platform.asSuperuser(ref, session => session.rows<T>(raw(text)))

  const hasSecurity = async (table: string, ref = stage.ref) =>
    (
      await asSuperuser<{ on: boolean }>(
        `select relrowsecurity as on from pg_class where oid = ${literal(table)}::regclass`,
        ref,
      )
    )[0]!.on

  return {
    stage,
    asOwner: (text: string, ref = stage.ref) =>
      stage.platform.app.databases.asOwner({ ref }, session => session.script(text)),
    asRole,
    asSuperuser,
    hasSecurity,
    /** For a table with one row: service_role sees it, the others see no rows, and no role gets an error. */
    async assertSecured(table: string, to = stage.project): Promise<void> {
      const name = `public.${identifier(table)}`
      const ref = await stage.platform.refOf(to.id)
      assert.equal(await hasSecurity(name, ref), true, `row-level security of ${name}`)
      for (const role of roles) {
        const rows = await asRole(role, `select a from ${name}`, { to })
        assert.deepEqual(rows, role === 'service_role' ? [['1']] : [], `${role} reads ${name}`)
      }
    },
  }
}
