import type { whoamiApi } from '@plinth/contract/whoami.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'

export const whoamiRoutes = (): Handlers<typeof whoamiApi, Caller> => ({
  read: (_input, { tenant, role, userId }) => ({ project_id: tenant.id, role, user_id: userId || null }),
})
