// A project's database and roles, made and unmade. Every step can be repeated and undone, so whoever finds a
// half-made project can finish removing it.
import { type Database, guardedSettings, withClient } from '#src/kernel/postgres/database.ts'
import { identifier, literal } from '#src/kernel/postgres/sql.ts'
import type { Cluster } from './cluster.ts'
import { logins as allLogins, type Login, type Logins, loginRole } from './logins.ts'

export interface Provisioner {
  create(ref: string): Promise<void>
  drop(ref: string): Promise<void>
}

const attributes: Record<Login, string> = {
  owner: 'connection limit 20',
  api: 'connection limit 100',
  svc: 'connection limit 100',
}
const templateBusy = '55006'

export function createProvisioner(control: Database, cluster: Cluster, logins: Logins): Provisioner {
  async function createRoles(ref: string): Promise<void> {
    const created = await Promise.all(
      allLogins.map(async login => {
        const role = identifier(loginRole(ref, login))
        // A ready verifier: no clear-text password is ever in a statement.
        return `create role ${role} login noinherit nocreatedb nocreaterole ${attributes[login]} password ${literal(await logins.verifier(ref, login))};`
      }),
    )
    const [owner, api, svc] = allLogins.map(login => identifier(loginRole(ref, login)))
    await control.script(`${created.join('\n')}
      grant anon, authenticated to ${api};
      grant service_role to ${svc};
      alter role ${owner} set temp_file_limit = '1GB';
      alter role ${api} set temp_file_limit = '256MB';
      alter role ${svc} set temp_file_limit = '256MB';`)
  }

  /** Connection limit 0 keeps everybody out until PUBLIC's right to connect is taken away. */
  async function cloneTemplate(ref: string): Promise<void> {
    for (let attempt = 1; ; attempt++)
      try {
        return await control.script(
          `create database ${identifier(ref)} template ${identifier(cluster.template)} connection limit 0`,
        )
      } catch (error) {
        // Another node is bringing the template up to date.
        if ((error as { code?: string }).code !== templateBusy || attempt === 50) throw error
        await new Promise(resolve => setTimeout(resolve, 100))
      }
  }

  return {
    async create(ref) {
      await Promise.all([createRoles(ref), cloneTemplate(ref)])
      await withClient(cluster.address, ref, guardedSettings, session => session.script(grants(ref)))
    },
    async drop(ref) {
      const roles = allLogins.map(login => loginRole(ref, login))
      // No new logins, so that FORCE leaves nobody behind; roles go last, because the database depends on them.
      await control.script(
        roles
          .map(
            role =>
              `do $$ begin alter role ${identifier(role)} nologin; exception when undefined_object then null; end $$;`,
          )
          .join('\n'),
      )
      await control.script(`drop database if exists ${identifier(ref)} with (force)`)
      await control.script(`drop role if exists ${roles.map(identifier).join(', ')}`)
    },
  }
}

/** Run inside the new database by the superuser, who keeps owning it; the tenant gets schema public. */
function grants(ref: string): string {
  const database = identifier(ref)
  const [owner, api, svc] = allLogins.map(login => identifier(loginRole(ref, login)))
  const everyone = 'anon, authenticated, service_role'
  const defaults = `alter default privileges for role ${owner} in schema public grant`
  return `
    revoke all on database ${database} from public;
    grant connect, create, temporary on database ${database} to ${owner};
    grant connect on database ${database} to ${api}, ${svc};
    alter schema public owner to ${owner};
    alter publication supabase_realtime owner to ${owner};
    grant create, usage on schema extensions to ${owner};
    grant execute on function platform.first_time(oid), platform.forget(oid) to ${owner};
    ${defaults} select, insert, update, delete on tables to ${everyone};
    ${defaults} usage, select on sequences to ${everyone};
    ${defaults} execute on functions to ${everyone};
    alter database ${database} connection limit 250;`
}
