import type { realtimeApi } from '@plinth/contract/realtime.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { readBroadcasts, readPayload } from './http-broadcasts.ts'
import type { RealtimeService } from './service.ts'

export const realtimeRoutes = (realtime: RealtimeService): Handlers<typeof realtimeApi, Caller> => ({
  broadcast: (_input, caller, request) => realtime.post(caller, request, () => readBroadcasts(request)),
  broadcastOne: ({ params, query }, caller, request) =>
    realtime.post(caller, request, async () => [
      await readPayload(request, params.topic, params.event, query.private === true),
    ]),
})
