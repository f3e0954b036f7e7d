import type { realtimeManagementApi } from '@plinth/contract/realtime.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { RealtimeTables } from './tables.ts'

export const realtimeManagementRoutes = (
  tables: RealtimeTables,
): Handlers<typeof realtimeManagementApi, Actor> => ({
  listTables: ({ params, query }) => tables.list(params.id, paging(query)),
  setTable: ({ params, body }) => tables.set(params.id, params.table, body),
})
