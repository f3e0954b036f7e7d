// Projects with the schema of an older release, for tests of upgrades.
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import type { TestPlatform } from './harness.ts'

export interface OutdatedProject extends CreatedProject {
  ref: string
}

/** Without auth.email(). */
export async function outdatedProject(here: TestPlatform): Promise<OutdatedProject> {
  const project = await here.createProject()
  const ref = await here.refOf(project.id)
  await here.asSuperuser(ref, session =>
    session.script(
      `drop function auth.email(); update platform.migrations set hash = 'old' where name = 'auth_claims'`,
    ),
  )
  await here.app.control.run(sql`update projects set schema_version = 'old' where id = ${project.id}`)
  return { ...project, ref }
}

/** One after the other, in the order in which they are upgraded. */
export async function outdatedProjects(here: TestPlatform, count: number): Promise<OutdatedProject[]> {
  const projects: OutdatedProject[] = []
  while (projects.length < count) projects.push(await outdatedProject(here))
  return projects
}

/** Its next upgrade fails, until the function is dropped. */
export const failMigration = (here: TestPlatform, { ref }: OutdatedProject) =>
  here.asSuperuser(ref, session =>
    session.script('create function auth.email() returns int language sql as $$ select 1 $$'),
  )

/** Takes a lock as superuser, which an upgrade does not terminate. */
export async function holdTable(
  { address }: Pick<TestPlatform, 'address'>,
  { ref }: Pick<OutdatedProject, 'ref'>,
  table = 'platform.migrations',
): Promise<() => Promise<void>> {
  const released = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const holding = withClient(address, ref, guardedSettings, async session => {
    await session.script(`begin; lock table ${table} in access exclusive mode`)
    held.resolve()
    await released.promise
  })
  holding.catch(held.reject)
  await held.promise
  return async () => {
    released.resolve()
    await holding.catch(() => {})
  }
}

/** Waits until a backup of the project waits for a table that `holdTable` holds. */
export const backupHeld = (here: TestPlatform, { ref }: OutdatedProject) =>
  here.asSuperuser('postgres', session =>
    eventually(
      async () =>
        (
          await session.rows(
            sql`select from pg_stat_activity where datname = ${ref} and wait_event_type = 'Lock'`,
          )
        ).length > 0,
      'the backup waits',
    ),
  )

/** An execution ends early when it records the result of the project, until the function is dropped. */
export const failRecord = (here: TestPlatform, { id }: OutdatedProject) =>
  here.app.control.script(`
    create function fail_record() returns trigger language plpgsql as $$ begin raise 'no record'; end $$;
    create trigger fail_record before update of status on upgrade_projects for each row
      when (new.project_id = '${id}') execute function fail_record()`)
