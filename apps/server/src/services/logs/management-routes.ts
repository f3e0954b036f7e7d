import type { logsApi } from '@plinth/contract/logs.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import { type Actor, scopeOf } from '#src/planes/management/actor.ts'
import type { LogsService } from './service.ts'

export const logsRoutes = (logs: LogsService): Handlers<typeof logsApi, Actor> => ({
  list({ params, query }, actor) {
    // The log of a single function needs deploy scope, too, because functions print what they want.
    const showsOutput = scopeOf(actor, params.id.toLowerCase()) !== 'read'
    return logs.list(params.id, query, { showsOutput })
  },
})
