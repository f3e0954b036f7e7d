// The logs of projects, in the control database: the requests to their data plane and the lines of services. They are
// written in batches off the path of requests: a crash of the platform loses at most those of the last second. A project
// that logs too fast loses entries, and the log says how many.
import type { LogsPage, LogsQuery } from '@plinth/contract/logs.ts'
import type { Answered } from '#src/kernel/http/observation.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { type StorageLimits, startCleaning } from './cleaning.ts'
import { cursorOf, positionIn } from './cursor.ts'
import { filterOf } from './filter.ts'
import type { LogLine, LogQuery, StoredLine } from './line.ts'
import { type SearchLimits, search } from './search.ts'
import * as store from './store.ts'
import { createWaiting, type WaitingLimits } from './waiting.ts'
import { startWriting } from './writing.ts'

export type { LogLine } from './line.ts'

export interface LogsService {
  /** The line is made only if the log takes it. */
  append(projectId: string, makeLine: () => LogLine): void
  /** Adds an answer to the access log, if it is one of the data plane to an admitted caller. */
  answered(answer: Answered): void
  read(projectId: string, query: LogQuery): Promise<StoredLine[]>
  /** The merged log, the latest first. */
  list(projectId: string, query: LogsQuery, options: { showsOutput: boolean }): Promise<LogsPage>
  remove(projectId: string, source: string, name: string): Promise<void>
  /** Writes what is waiting. */
  flush(): Promise<void>
  close(): Promise<void>
}

const entryLimits = { usual: 50, most: 500 }
/** Searches at once on this node, so that they do not take all connections to the control database. */
const searchConcurrency = { concurrency: 4, perKey: 2, maxWaiting: 50 }

export interface LogsDeps {
  control: Database
  owner: Pick<OwnerWork, 'tenant'>
  log: Log
  retentionDays: number
  /** For tests. */
  limits?: { waiting?: WaitingLimits; search?: SearchLimits; storage?: StorageLimits }
}

export function logsService({ control, owner, log, retentionDays, limits = {} }: LogsDeps): LogsService {
  const waiting = createWaiting(limits.waiting)
  const cleaning = startCleaning({ control, log, retentionDays, ...limits.storage })
  const writing = startWriting({ control, waiting, log, linesWritten: cleaning.linesWritten })
  const limitSearches = createLimiter(searchConcurrency)

  return {
    append: (projectId, makeLine) => waiting.addLine(projectId, () => storable(makeLine())),

    answered(answer) {
      const { project, route } = answer
      if (project !== undefined && route.startsWith('/v1/')) waiting.addAnswer(project, answer)
    },

    read: (projectId, query) => store.readLines(control, projectId, query),

    async list(projectId, query, { showsOutput }) {
      const wanted = {
        filter: filterOf(query),
        before: positionIn(query.before),
        after: Number(query.after ?? 0),
        limit: Math.min(query.limit ?? entryLimits.usual, entryLimits.most),
        showsOutput,
      }
      const { id } = await owner.tenant(projectId)
      const { entries, next } = await limitSearches(id, () =>
        search(control, { projectId: id, ...wanted }, limits.search),
      )
      return { logs: entries, next_before: next === undefined ? null : cursorOf(next) }
    },

    async remove(projectId, source, name) {
      await store.removeLines(control, projectId, source, name)
    },

    flush: writing.flush,

    async close() {
      await cleaning.stop()
      await writing.stop()
    },
  }
}

const maxName = 128

/** What Postgres can store: texts without NUL and without half characters, and names that fit into an index. */
const storable = (line: LogLine): LogLine => ({
  ...line,
  name: textFrom(line.name).slice(0, maxName),
  message: textFrom(line.message),
  request_id: line.request_id === null ? null : textFrom(line.request_id).slice(0, maxName),
})

const textFrom = (text: string) => text.replaceAll('\0', '\ufffd').toWellFormed()
