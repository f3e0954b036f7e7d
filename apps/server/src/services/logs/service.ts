// The log lines of projects, in the control database. Lines are written in batches: a crash of the platform loses at most
// those of the last quarter of a second. A project that logs too fast loses lines, and the log says how many.
import { startChore } from '#src/kernel/chores.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { LogLine, LogQuery, StoredLine } from './line.ts'
import * as store from './store.ts'

export type { LogLine } from './line.ts'

export interface LogsService {
  /** The line is made only if the log takes it. */
  append(projectId: string, makeLine: () => LogLine): void
  read(projectId: string, query: LogQuery): Promise<StoredLine[]>
  remove(projectId: string, source: string, name: string): Promise<void>
  /** Writes the lines that are waiting. */
  flush(): Promise<void>
  close(): Promise<void>
}

interface Waiting {
  lines: LogLine[]
  bytes: number
  dropped: number
  /** Lines that may be appended now. */
  allowance: number
  refilledAt: number
}

const flushMs = 250
const perSecond = 200
const burst = 2000
const maxWaitingBytes = 2 * 1024 * 1024
const maxProjectBytes = 64 * 1024 * 1024
const trimEveryMs = 60_000
const pruneEveryMs = 3_600_000

export interface LogsDeps {
  control: Database
  log: Log
  retentionDays: number
}

export function logsService({ control, log, retentionDays }: LogsDeps): LogsService {
  const waiting = new Map<string, Waiting>()
  /** Projects that have logged since they were last trimmed. */
  const grown = new Set<string>()

  function waitingOf(projectId: string): Waiting {
    const known = waiting.get(projectId)
    if (known) return known
    const created = { lines: [], bytes: 0, dropped: 0, allowance: burst, refilledAt: performance.now() }
    waiting.set(projectId, created)
    return created
  }

  function isAllowed(project: Waiting): boolean {
    const now = performance.now()
    project.allowance = Math.min(burst, project.allowance + ((now - project.refilledAt) / 1000) * perSecond)
    project.refilledAt = now
    if (project.allowance < 1 || project.bytes > maxWaitingBytes) return false
    project.allowance--
    return true
  }

  async function flush(): Promise<void> {
    for (const [projectId, project] of waiting) {
      const { lines, dropped } = project
      if (lines.length === 0) {
        if (project.allowance >= burst) waiting.delete(projectId)
        continue
      }
      Object.assign(project, { lines: [], bytes: 0, dropped: 0 })
      if (dropped > 0) lines.push(droppedLine(lines.at(-1)!, dropped))
      grown.add(projectId)
      try {
        await store.insertLines(control, projectId, lines)
      } catch (error) {
        if (isRefusedValue(error)) {
          // They would be refused again, and no project may hold up the lines of others.
          log.error({ err: error, project: projectId }, 'log lines of a project were refused and are lost')
          continue
        }
        // They are written with the next ones, as long as they fit.
        project.lines = [...lines, ...project.lines]
        project.bytes = project.lines.reduce((sum, { message }) => sum + message.length, 0)
        throw error
      }
    }
  }

  const chores = [
    startChore({ name: 'write log lines of projects', everyMs: flushMs, run: flush }, log),
    startChore(
      {
        name: 'trim the logs of projects',
        everyMs: trimEveryMs,
        async run() {
          for (const projectId of grown) {
            grown.delete(projectId)
            await store.trim(control, projectId, maxProjectBytes)
          }
        },
      },
      log,
    ),
    startChore(
      {
        name: 'remove old log lines of projects',
        everyMs: pruneEveryMs,
        runsAtStart: true,
        async run(signal) {
          while (!signal.aborted && (await store.removeOld(control, retentionDays)) > 0);
        },
      },
      log,
    ),
  ]

  return {
    append(projectId, makeLine) {
      const project = waitingOf(projectId)
      if (!isAllowed(project)) {
        project.dropped++
        return
      }
      const line = storable(makeLine())
      project.bytes += line.message.length
      project.lines.push(line)
    },
    read: (projectId, query) => store.readLines(control, projectId, query),
    async remove(projectId, source, name) {
      await store.removeLines(control, projectId, source, name)
    },
    flush,
    async close() {
      await Promise.all(chores.map(chore => chore.stop()))
      await flush().catch(() => {})
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

/** SQLSTATE classes 22 and 54: a value is malformed or too large. */
const isRefusedValue = (error: unknown) => /^(?:22|54)/.test(String((error as { code?: unknown }).code))

const droppedLine = ({ source, name, at }: LogLine, count: number): LogLine => ({
  source,
  name,
  at,
  level: 'warn',
  event: 'output',
  message: `${count} lines were dropped, because the project logs more than ${perSecond} lines a second`,
  request_id: null,
  facts: {},
})
