// All route tables by service. The server, OpenAPI and the clients read them.
import { adminApi } from './admin.ts'
import { authApi } from './auth.ts'
import { backupsApi } from './backups.ts'
import { branchesApi } from './branches.ts'
import { cacheApi, cacheManagementApi } from './cache.ts'
import { cronApi, cronManagementApi } from './cron.ts'
import { dbApi } from './db.ts'
import { docsApi } from './docs.ts'
import { emailApi } from './email.ts'
import { functionsApi, functionsManagementApi } from './functions.ts'
import { graphqlApi, graphqlManagementApi } from './graphql.ts'
import { healthApi } from './health.ts'
import { logsApi } from './logs.ts'
import { metricsApi } from './metrics.ts'
import { pitrApi } from './pitr.ts'
import { platformApi } from './platform.ts'
import { poolerApi } from './pooler.ts'
import { projectsApi } from './projects.ts'
import { queriesApi } from './queries.ts'
import { queueApi } from './queue.ts'
import { realtimeApi, realtimeManagementApi } from './realtime.ts'
import { restApi } from './rest.ts'
import { rlsApi } from './rls.ts'
import type { Routes } from './route.ts'
import { schemaApi } from './schema.ts'
import { secretsApi } from './secrets.ts'
import { storageApi } from './storage.ts'
import { teamApi } from './team.ts'
import { typesApi } from './types.ts'
import { upgradeApi } from './upgrade.ts'
import { usageApi } from './usage.ts'
import { usersApi } from './users.ts'
import { webhooksApi } from './webhooks.ts'
import { whoamiApi } from './whoami.ts'

export const routeTables = {
  health: healthApi,
  metrics: metricsApi,
  platform: platformApi,
  projects: projectsApi,
  schema: schemaApi,
  rls: rlsApi,
  queries: queriesApi,
  secrets: secretsApi,
  backups: backupsApi,
  pitr: pitrApi,
  branches: branchesApi,
  pooler: poolerApi,
  logs: logsApi,
  usage: usageApi,
  email: emailApi,
  db: dbApi,
  types: typesApi,
  docs: docsApi,
  team: teamApi,
  users: usersApi,
  admin: adminApi,
  upgrade: upgradeApi,
  whoami: whoamiApi,
  rest: restApi,
  functions: functionsApi,
  functionsManagement: functionsManagementApi,
  webhooks: webhooksApi,
  graphql: graphqlApi,
  graphqlManagement: graphqlManagementApi,
  auth: authApi,
  cache: cacheApi,
  cacheManagement: cacheManagementApi,
  queue: queueApi,
  cron: cronApi,
  cronManagement: cronManagementApi,
  storage: storageApi,
  realtime: realtimeApi,
  realtimeManagement: realtimeManagementApi,
} as const satisfies Record<string, Routes>
