// A project that notices when its code runs as a superuser.
import { randomBytes } from 'node:crypto'
import { raw } from '#src/kernel/postgres/sql.ts'
import { type BackedUpProject, backedUpProject } from './backup-project.ts'
import type { TestPlatform } from './harness.ts'

export interface Trapped {
  project: BackedUpProject
  /** Places in which code of the tenant ran as a superuser. */
  caught(): Promise<string[]>
}

/**
 * A project with functions that leave a role behind if they run as a superuser. Roles stay when the copy in which they ran is
 * dropped. `trap` may be called anywhere, `calm_trap` also where Postgres wants an immutable function.
 */
export async function trappedProject(platform: TestPlatform): Promise<Trapped> {
  const project = await backedUpProject(platform)
  const mark = `trap_${randomBytes(6).toString('hex')}_`
  await project.sql(`
    create function trap(place text) returns boolean language plpgsql as $$ begin
      if (select rolsuper from pg_catalog.pg_roles where rolname = current_user)
        and not exists (select from pg_catalog.pg_roles where rolname = '${mark}' || place) then
        execute pg_catalog.format('create role %I', '${mark}' || place);
      end if;
      return true;
    end $$;
    create function calm_trap(place text) returns boolean language plpgsql immutable as $$ begin
      return public.trap(place);
    end $$`)
  return {
    project,
    async caught() {
      const roles = await platform.asSuperuser('postgres', session =>
        session.rows<{ rolname: string }>(
          raw(`select rolname from pg_catalog.pg_roles where starts_with(rolname, '${mark}') order by 1`),
        ),
      )
      for (const { rolname } of roles)
        await platform.asSuperuser('postgres', session => session.script(`drop role "${rolname}"`))
      return roles.map(({ rolname }) => rolname.slice(mark.length))
    },
  }
}
