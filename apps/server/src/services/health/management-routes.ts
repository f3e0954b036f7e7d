import type { healthApi } from '@plinth/contract/health.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import { jsonReply } from '#src/kernel/http/request.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { HealthService } from './service.ts'

const statusOf = ({ status }: { status: string }) => (status === 'unavailable' ? 503 : 200)
const uncached = { 'cache-control': 'no-store' }

export const healthRoutes = (
  health: HealthService,
  description: string,
): Handlers<typeof healthApi, Actor> => ({
  async health() {
    const state = await health.health()
    return jsonReply(statusOf(state), state, uncached)
  },
  async services(_, actor) {
    const state = await health.services(actor.kind === 'anonymous' ? 'anyone' : 'operator')
    return jsonReply(statusOf(state), state, uncached)
  },
  openapi: async () => ({
    status: 200,
    headers: { 'content-type': 'application/json; charset=utf-8' },
    body: description,
  }),
})
