// Decides who creates an object of a backup. To create one can run code of the tenant: the statement is parsed with its
// domains, rows come in through its functions. The superuser creates only what is the platform's.
import type { DumpedObject } from '#src/kernel/postgres/dump/contents.ts'
import { literal } from '#src/kernel/postgres/sql.ts'

/** Requests run as these roles, so a function of the tenant can create objects that they own. */
const requestRoles: readonly string[] = ['anon', 'authenticated', 'service_role']
/** Names may have any words in them. Postgres doubles quotes within names. */
const quotedName = /"[^"]*"/g
/** A condition or a call, whichever comes first. Before it are only names. */
const conditionOrCall = / (?:WHEN \(|EXECUTE FUNCTION (platform\.\w+\()?)/
/** Longer than the names of all columns of a table. The literals behind them can have any length. */
const longestNames = 512 * 1024

/** Whether it is a role of the project with this ref, or one that serves its requests. */
export const isTenantRole = (role: string, ref: string): boolean =>
  requestRoles.includes(role) || role.startsWith(`${ref}_`)

/** Tenants can create triggers on tables of the platform, and the platform on those of tenants. */
export function isTenants(object: DumpedObject, ref: string): boolean {
  if (object.kind === 'TRIGGER') return !isPlatformTrigger(object.sql)
  return isTenantRole(object.owner, ref)
}

/** Tenants have no right to create triggers with functions of the platform. Those of the platform have no condition. */
function isPlatformTrigger(sql: string): boolean {
  const found = conditionOrCall.exec(sql.slice(0, longestNames).replace(quotedName, '""'))
  return found?.[1] !== undefined
}

/** Whether it is the platform's, and can be created before anything of the tenant. A cast has no owner, but uses types. */
export const isPlatforms = (object: DumpedObject, ref: string): boolean =>
  ((object.owner !== '' || object.kind === 'EXTENSION') && !isTenantRole(object.owner, ref)) ||
  isGivenFunction(object)

/**
 * Of the platform, but owned by the tenant, who must not create functions in its schema: an overload of one that runs with more
 * rights would be called by it. Without defaults of parameters, whose constants would run code of the tenant.
 */
const isGivenFunction = ({ kind, schema, sql }: DumpedObject): boolean =>
  kind === 'FUNCTION' && schema === 'platform' && givenFunction.test(sql)
const givenFunction = /^CREATE FUNCTION platform\.prepare_judge\([a-z ,"]*\) RETURNS void\s+LANGUAGE plpgsql /

/** Refuses definitions in the name of roles that own tables and functions of the platform, and changes nothing itself. */
export const isGuard = ({ kind, sql }: DumpedObject): boolean =>
  kind === 'EVENT TRIGGER' && sql.includes('EXECUTE FUNCTION platform.refuse_as_auth_owner()')

/** The end of a trigger that is not simply enabled. Only the owner of its table may say this. */
const triggerState =
  /\nALTER TABLE auth\.(\w+) (DISABLE|ENABLE ALWAYS|ENABLE REPLICA) TRIGGER (\w+|"(?:[^"]|"")*");\s*$/

const longestState = 1000

/** As the tenant itself must create it. */
export function tenantStatement({ kind, sql }: DumpedObject): string {
  if (kind !== 'TRIGGER') return sql
  const [found, table, state, name] = triggerState.exec(sql.slice(-longestState)) ?? []
  if (!found || !table || !state || !name) return sql
  const trigger = name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name
  return `${sql.slice(0, -found.length)}\ncall platform.set_auth_trigger(${[table, trigger, state.toLowerCase()].map(literal).join(', ')});`
}
