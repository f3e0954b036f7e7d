// The client of the management API. The paths repeat those of the contract, and the compiler checks them: loading the
// route tables would load TypeBox, 230 ms of CPU for every command.
import type { adminApi } from '@plinth/contract/admin.ts'
import type { backupsApi } from '@plinth/contract/backups.ts'
import type { branchesApi } from '@plinth/contract/branches.ts'
import { type Client, type ClientOptions, client } from '@plinth/contract/client.ts'
import type { dbApi } from '@plinth/contract/db.ts'
import type { emailApi } from '@plinth/contract/email.ts'
import type { functionsManagementApi } from '@plinth/contract/functions.ts'
import type { graphqlManagementApi } from '@plinth/contract/graphql.ts'
import type { logsApi } from '@plinth/contract/logs.ts'
import type { pitrApi } from '@plinth/contract/pitr.ts'
import type { platformApi } from '@plinth/contract/platform.ts'
import type { poolerApi } from '@plinth/contract/pooler.ts'
import type { projectsApi } from '@plinth/contract/projects.ts'
import type { realtimeManagementApi } from '@plinth/contract/realtime.ts'
import type { rlsApi } from '@plinth/contract/rls.ts'
import type { ManagementRoute } from '@plinth/contract/route.ts'
import type { schemaApi } from '@plinth/contract/schema.ts'
import type { secretsApi } from '@plinth/contract/secrets.ts'
import type { teamApi } from '@plinth/contract/team.ts'
import type { typesApi } from '@plinth/contract/types.ts'
import type { upgradeApi } from '@plinth/contract/upgrade.ts'
import type { usersApi } from '@plinth/contract/users.ts'
import type { webhooksApi } from '@plinth/contract/webhooks.ts'
import { isSameLoopback, requireToken, resolveTarget, type Target } from './connection.ts'
import type { Context } from './context.ts'
import { Failure } from './failure.ts'
import { serverVersion } from './health.ts'
import { dataDirectory, inspect } from './local-platform.ts'

// The client reads no other fields of a route at run time.
const route = <R extends ManagementRoute>(method: R['method'], path: R['path']): R =>
  ({ plane: 'management', method, path }) as R

const projects = {
  create: route<typeof projectsApi.create>('POST', '/projects'),
  list: route<typeof projectsApi.list>('GET', '/projects'),
  read: route<typeof projectsApi.read>('GET', '/projects/{id}'),
  update: route<typeof projectsApi.update>('PATCH', '/projects/{id}'),
  remove: route<typeof projectsApi.remove>('DELETE', '/projects/{id}'),
  suspend: route<typeof projectsApi.suspend>('POST', '/projects/{id}/suspend'),
  resume: route<typeof projectsApi.resume>('POST', '/projects/{id}/resume'),
  revealServiceRoleKey: route<typeof projectsApi.revealServiceRoleKey>(
    'GET',
    '/projects/{id}/keys/service-role',
  ),
  rotateJwtSecret: route<typeof projectsApi.rotateJwtSecret>('POST', '/projects/{id}/rotate/jwt'),
  rotateApiKeys: route<typeof projectsApi.rotateApiKeys>('POST', '/projects/{id}/rotate/api-keys'),
}
const email = {
  readSmtp: route<typeof emailApi.readSmtp>('GET', '/projects/{id}/email/smtp'),
  saveSmtp: route<typeof emailApi.saveSmtp>('PUT', '/projects/{id}/email/smtp'),
  listCaught: route<typeof emailApi.listCaught>('GET', '/projects/{id}/email/outbox'),
  readCaught: route<typeof emailApi.readCaught>('GET', '/projects/{id}/email/outbox/{message_id}'),
}
const tokens = {
  mint: route<typeof platformApi.mintToken>('POST', '/platform/tokens'),
  list: route<typeof platformApi.listTokens>('GET', '/platform/tokens'),
  revoke: route<typeof platformApi.revokeToken>('DELETE', '/platform/tokens/{token_id}'),
}
const admin = {
  pruneAudit: route<typeof adminApi.pruneAudit>('POST', '/admin/audit/prune'),
  createUser: route<typeof adminApi.createUser>('POST', '/admin/users'),
}
const schema = {
  listTables: route<typeof schemaApi.listTables>('GET', '/projects/{id}/schema/tables'),
  createTable: route<typeof schemaApi.createTable>('POST', '/projects/{id}/schema/tables'),
  dropTable: route<typeof schemaApi.dropTable>('DELETE', '/projects/{id}/schema/tables/{table}'),
  addColumn: route<typeof schemaApi.addColumn>('POST', '/projects/{id}/schema/tables/{table}/columns'),
  dropColumn: route<typeof schemaApi.dropColumn>(
    'DELETE',
    '/projects/{id}/schema/tables/{table}/columns/{col}',
  ),
  listExtensions: route<typeof schemaApi.listExtensions>('GET', '/projects/{id}/schema/extensions'),
}
const rls = {
  status: route<typeof rlsApi.status>('GET', '/projects/{id}/rls/status'),
  enable: route<typeof rlsApi.enable>('POST', '/projects/{id}/rls/tables/{table}/enable'),
  disable: route<typeof rlsApi.disable>('POST', '/projects/{id}/rls/tables/{table}/disable'),
  listPolicies: route<typeof rlsApi.listPolicies>('GET', '/projects/{id}/rls/tables/{table}/policies'),
  createPolicy: route<typeof rlsApi.createPolicy>('POST', '/projects/{id}/rls/tables/{table}/policies'),
  dropPolicy: route<typeof rlsApi.dropPolicy>('DELETE', '/projects/{id}/rls/tables/{table}/policies/{name}'),
  test: route<typeof rlsApi.test>('POST', '/projects/{id}/rls/test'),
}
const realtime = {
  listTables: route<typeof realtimeManagementApi.listTables>('GET', '/projects/{id}/realtime/tables'),
  setTable: route<typeof realtimeManagementApi.setTable>('PUT', '/projects/{id}/realtime/tables/{table}'),
}
const db = {
  push: route<typeof dbApi.push>('POST', '/projects/{id}/db/push'),
  plan: route<typeof dbApi.plan>('POST', '/projects/{id}/db/plan'),
  listMigrations: route<typeof dbApi.listMigrations>('GET', '/projects/{id}/db/migrations'),
  record: route<typeof dbApi.record>('POST', '/projects/{id}/db/migrations'),
  reset: route<typeof dbApi.reset>('POST', '/projects/{id}/db/reset'),
  schema: route<typeof dbApi.schema>('GET', '/projects/{id}/db/schema'),
  data: route<typeof dbApi.data>('GET', '/projects/{id}/db/data'),
}
const types = {
  typescript: route<typeof typesApi.typescript>('GET', '/projects/{id}/types/typescript'),
  drizzle: route<typeof typesApi.drizzle>('GET', '/projects/{id}/types/drizzle'),
  graphql: route<typeof graphqlManagementApi.schema>('GET', '/projects/{id}/types/graphql'),
}
const team = {
  invite: route<typeof teamApi.invite>('POST', '/projects/{id}/invites'),
  listInvites: route<typeof teamApi.listInvites>('GET', '/projects/{id}/invites'),
  revokeInvite: route<typeof teamApi.revokeInvite>('DELETE', '/projects/{id}/invites/{invite_id}'),
  accept: route<typeof teamApi.accept>('POST', '/invites/accept'),
  listMembers: route<typeof teamApi.listMembers>('GET', '/projects/{id}/members'),
  updateMember: route<typeof teamApi.updateMember>('PATCH', '/projects/{id}/members/{user_id}'),
  removeMember: route<typeof teamApi.removeMember>('DELETE', '/projects/{id}/members/{user_id}'),
}
const users = {
  list: route<typeof usersApi.list>('GET', '/projects/{id}/users'),
  create: route<typeof usersApi.create>('POST', '/projects/{id}/users'),
  import: route<typeof usersApi.import>('POST', '/projects/{id}/users/import'),
  read: route<typeof usersApi.read>('GET', '/projects/{id}/users/{user_id}'),
  remove: route<typeof usersApi.remove>('DELETE', '/projects/{id}/users/{user_id}'),
  ban: route<typeof usersApi.ban>('POST', '/projects/{id}/users/{user_id}/ban'),
  unban: route<typeof usersApi.unban>('POST', '/projects/{id}/users/{user_id}/unban'),
  listSessions: route<typeof usersApi.listSessions>('GET', '/projects/{id}/users/{user_id}/sessions'),
  revokeSessions: route<typeof usersApi.revokeSessions>('DELETE', '/projects/{id}/users/{user_id}/sessions'),
  revokeSession: route<typeof usersApi.revokeSession>(
    'DELETE',
    '/projects/{id}/users/{user_id}/sessions/{token}',
  ),
}
const secrets = {
  list: route<typeof secretsApi.list>('GET', '/projects/{id}/secrets'),
  save: route<typeof secretsApi.save>('POST', '/projects/{id}/secrets'),
  remove: route<typeof secretsApi.remove>('DELETE', '/projects/{id}/secrets/{identifier}'),
}
const functions = {
  list: route<typeof functionsManagementApi.list>('GET', '/projects/{id}/functions'),
  create: route<typeof functionsManagementApi.create>('POST', '/projects/{id}/functions'),
  read: route<typeof functionsManagementApi.read>('GET', '/projects/{id}/functions/{name}'),
  update: route<typeof functionsManagementApi.update>('PUT', '/projects/{id}/functions/{name}'),
  rollback: route<typeof functionsManagementApi.rollback>('POST', '/projects/{id}/functions/{name}/rollback'),
  remove: route<typeof functionsManagementApi.remove>('DELETE', '/projects/{id}/functions/{name}'),
  logs: route<typeof functionsManagementApi.logs>('GET', '/projects/{id}/functions/{name}/logs'),
}
const logs = { list: route<typeof logsApi.list>('GET', '/projects/{id}/logs') }
const webhooks = {
  purgeDeadLetters: route<typeof webhooksApi.purgeDeadLetters>('POST', '/admin/webhooks/dlq/purge'),
  create: route<typeof webhooksApi.create>('POST', '/projects/{id}/webhooks'),
  list: route<typeof webhooksApi.list>('GET', '/projects/{id}/webhooks'),
  openListener: route<typeof webhooksApi.openListener>('POST', '/projects/{id}/webhooks/listeners'),
  readListener: route<typeof webhooksApi.readListener>(
    'GET',
    '/projects/{id}/webhooks/listeners/{listener_id}/deliveries',
  ),
  closeListener: route<typeof webhooksApi.closeListener>(
    'DELETE',
    '/projects/{id}/webhooks/listeners/{listener_id}',
  ),
  trigger: route<typeof webhooksApi.trigger>('POST', '/projects/{id}/webhooks/trigger'),
  read: route<typeof webhooksApi.read>('GET', '/projects/{id}/webhooks/{wid}'),
  update: route<typeof webhooksApi.update>('PATCH', '/projects/{id}/webhooks/{wid}'),
  remove: route<typeof webhooksApi.remove>('DELETE', '/projects/{id}/webhooks/{wid}'),
  rotateSecret: route<typeof webhooksApi.rotateSecret>('POST', '/projects/{id}/webhooks/{wid}/rotate-secret'),
  test: route<typeof webhooksApi.test>('POST', '/projects/{id}/webhooks/{wid}/test'),
  listDeliveries: route<typeof webhooksApi.listDeliveries>('GET', '/projects/{id}/webhooks/{wid}/deliveries'),
  readDelivery: route<typeof webhooksApi.readDelivery>(
    'GET',
    '/projects/{id}/webhooks/{wid}/deliveries/{delivery_id}',
  ),
  retry: route<typeof webhooksApi.retry>(
    'POST',
    '/projects/{id}/webhooks/{wid}/deliveries/{delivery_id}/retry',
  ),
  attach: route<typeof webhooksApi.attach>('POST', '/projects/{id}/webhooks/{wid}/attach'),
  detach: route<typeof webhooksApi.detach>('DELETE', '/projects/{id}/webhooks/{wid}/attach/{table}'),
  listAttachments: route<typeof webhooksApi.listAttachments>(
    'GET',
    '/projects/{id}/webhooks/{wid}/attachments',
  ),
}
const backups = {
  list: route<typeof backupsApi.list>('GET', '/projects/{id}/backups'),
  create: route<typeof backupsApi.create>('POST', '/projects/{id}/backups'),
  settings: route<typeof backupsApi.settings>('GET', '/projects/{id}/backups/settings'),
  configure: route<typeof backupsApi.configure>('PUT', '/projects/{id}/backups/settings'),
  verify: route<typeof backupsApi.verify>('POST', '/projects/{id}/backups/{backup_id}/verify'),
  restore: route<typeof backupsApi.restore>('POST', '/projects/{id}/backups/{backup_id}/restore'),
  restores: route<typeof backupsApi.restores>('GET', '/projects/{id}/restores'),
  undo: route<typeof backupsApi.undo>('POST', '/projects/{id}/restores/{restore_id}/undo'),
  listDeleted: route<typeof backupsApi.listDeleted>('GET', '/admin/deleted-projects'),
}
const upgrade = {
  run: route<typeof upgradeApi.run>('POST', '/admin/platform/upgrade'),
  read: route<typeof upgradeApi.read>('GET', '/admin/platform/upgrade'),
}
const pitr = {
  restorePoints: route<typeof pitrApi.restorePoints>('GET', '/projects/{id}/pitr/restore-points'),
  preview: route<typeof pitrApi.preview>('GET', '/projects/{id}/pitr/restore/preview'),
  restore: route<typeof pitrApi.restore>('POST', '/projects/{id}/pitr/restore'),
  jobs: route<typeof pitrApi.jobs>('GET', '/projects/{id}/pitr/jobs'),
}
const branches = {
  list: route<typeof branchesApi.list>('GET', '/projects/{id}/branches'),
  create: route<typeof branchesApi.create>('POST', '/projects/{id}/branches'),
  read: route<typeof branchesApi.read>('GET', '/projects/{id}/branches/{slug}'),
  remove: route<typeof branchesApi.remove>('DELETE', '/projects/{id}/branches/{slug}'),
  diff: route<typeof branchesApi.diff>('GET', '/projects/{id}/branches/{slug}/diff'),
  reset: route<typeof branchesApi.reset>('POST', '/projects/{id}/branches/{slug}/reset'),
}
const pooler = { reveal: route<typeof poolerApi.reveal>('GET', '/projects/{id}/pooler') }

export interface Platform {
  target: Target
  projects: Client<typeof projects>
  email: Client<typeof email>
  tokens: Client<typeof tokens>
  admin: Client<typeof admin>
  schema: Client<typeof schema>
  rls: Client<typeof rls>
  realtime: Client<typeof realtime>
  db: Client<typeof db>
  types: Client<typeof types>
  secrets: Client<typeof secrets>
  functions: Client<typeof functions>
  logs: Client<typeof logs>
  webhooks: Client<typeof webhooks>
  backups: Client<typeof backups>
  pitr: Client<typeof pitr>
  branches: Client<typeof branches>
  pooler: Client<typeof pooler>
  upgrade: Client<typeof upgrade>
  team: Client<typeof team>
  users: Client<typeof users>
}

/** Requests the version together with the first request, so that the comparison needs no extra wait. */
export function connect(context: Context, target = resolveTarget(context)): Platform {
  warnAboutTarget(target, context)
  const token = requireToken(context, target)
  const abort = new AbortController()
  context.connection ??= {
    url: target.url,
    serverVersion: serverVersion(target.connectUrl, abort.signal),
    abandon: () => abort.abort(),
  }
  const options: ClientOptions = {
    baseUrl: target.connectUrl,
    token,
    onReply: reply => inspectReply(reply, context),
  }
  return {
    target,
    projects: client(projects, options),
    email: client(email, options),
    tokens: client(tokens, options),
    admin: client(admin, options),
    schema: client(schema, options),
    rls: client(rls, options),
    realtime: client(realtime, options),
    db: client(db, options),
    types: client(types, options),
    secrets: client(secrets, options),
    functions: client(functions, options),
    logs: client(logs, options),
    webhooks: client(webhooks, options),
    backups: client(backups, options),
    pitr: client(pitr, options),
    branches: client(branches, options),
    pooler: client(pooler, options),
    upgrade: client(upgrade, options),
    team: client(team, options),
    users: client(users, options),
  }
}

/** Warns about two ways to call another platform than intended. */
export function warnAboutTarget(target: Target, context: Context): void {
  const { given, screen, connection } = context
  if (connection) return // warned before
  const name = given.values['env']
  if (name && target.origin === 'PLATFORM_URL')
    screen.warn(`PLATFORM_URL is set, so --env ${name} is not used.`)
  const local = target.isDefault ? inspect(dataDirectory(context)).record : null
  if (local && !isSameLoopback(local.url, target.connectUrl))
    screen.warn(`The platform of this directory is at ${local.url}. To use it, run plinth link ${local.url}.`)
}

function inspectReply(reply: Response, { screen }: Context): void {
  screen.debug(`${reply.status} ${reply.url} request id ${reply.headers.get('x-request-id') ?? '-'}`)
  const isJson = reply.headers.get('content-type')?.includes('json') ?? false
  if (reply.ok && reply.status !== 204 && !isJson) {
    throw new Failure(
      'not_a_platform',
      `${reply.url} answered, but it is not a Plinth platform.`,
      'Check the URL: plinth config show --origin shows where it comes from.',
    )
  }
}
