import type { Opened } from '#src/planes/service.ts'
import { type LogsDeps, type LogsService, logsService } from './service.ts'

export function openLogs(deps: LogsDeps): Opened<LogsService> {
  const service = logsService(deps)
  return { name: 'logs', service, close: service.close }
}
