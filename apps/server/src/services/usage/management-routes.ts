import type { usageApi } from '@plinth/contract/usage.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { UsageService } from './service.ts'

export const usageRoutes = (usage: UsageService): Handlers<typeof usageApi, Actor> => ({
  read: async ({ params, query }) => ({ usage: await usage.read(params.id, query) }),
})
