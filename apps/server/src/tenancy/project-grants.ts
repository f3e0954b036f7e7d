// Rights of a project's logins in its database. Services add the grants for their own tables.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { type Login, loginRole, logins } from './logins.ts'

/** Returns SQL that grants rights to the logins, given as quoted names. The SQL must be repeatable. */
export type ProjectGrants = (roles: Readonly<Record<Login, string>>) => string

export type GrantsFor = (ref: string, database: string) => string

const databaseConnectionLimit = 250

/** Runs in the project database as superuser, who stays its owner. The project's owner gets schema public. */
export const grantsOf =
  (ofServices: readonly ProjectGrants[]): GrantsFor =>
  (ref, name) => {
    const database = identifier(name)
    const roles = Object.fromEntries(
      logins.map(login => [login, identifier(loginRole(ref, login))]),
    ) as Record<Login, string>
    const { owner, api, svc, auth } = roles
    return `
      revoke all on database ${database} from public;
      grant connect, create, temporary on database ${database} to ${owner};
      grant connect on database ${database} to ${api}, ${svc}, ${auth};
      alter schema public owner to ${owner};
      grant create, usage on schema extensions to ${owner};
      grant insert on platform.events to ${auth};
      ${ofServices.map(grants => grants(roles)).join('\n')}
      alter database ${database} connection limit ${databaseConnectionLimit};`
  }

/** For a new project only: its owner may revoke them, and an upgrade or a copy must not grant them again. */
export function defaultPrivilegesOf(ref: string): string {
  const everyone = 'anon, authenticated, service_role'
  const grant = `alter default privileges for role ${identifier(loginRole(ref, 'owner'))} in schema public grant`
  return `
    ${grant} select, insert, update, delete on tables to ${everyone};
    ${grant} usage, select on sequences to ${everyone};
    ${grant} execute on functions to ${everyone};`
}
