import { logsApi } from '@plinth/contract/logs.ts'
import type { Opened } from '#src/planes/service.ts'
import { logsRoutes } from './management-routes.ts'
import { type LogsDeps, type LogsService, logsService } from './service.ts'

export function openLogs(deps: LogsDeps): Opened<LogsService> {
  const service = logsService(deps)
  return {
    name: 'logs',
    service,
    mount: to => to.management(logsApi, logsRoutes(service)),
    close: service.close,
  }
}
