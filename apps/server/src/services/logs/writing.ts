// Writes what is waiting to the control database, a few times a second. Several projects are written at once, so that one
// whose rows are locked does not delay the others.
import { startChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Answered } from '#src/kernel/http/observation.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { encode, itemsPerBlock } from './block.ts'
import { isLine, isNotice, type LogItem, type LogLine } from './line.ts'
import * as store from './store.ts'
import { type Batch, itemsOf, type Waiting } from './waiting.ts'

const flushMs = 250
const projectsAtOnce = 4

export interface Writing {
  /** Rejects if something could not be written. It stays waiting. */
  flush(): Promise<void>
  /** Writes the rest. */
  stop(): Promise<void>
}

interface WritingDeps {
  control: Database
  waiting: Waiting
  log: Log
  linesWritten(projectId: string): void
}

export function startWriting({ control, waiting, log, linesWritten }: WritingDeps): Writing {
  /** Of the same project one at a time, so that its entries stay in order. */
  const underWay = new Map<string, Promise<void>>()

  async function writeProject(projectId: string): Promise<void> {
    const earlier = underWay.get(projectId)
    if (earlier) {
      await earlier.catch(() => {})
      return writeProject(projectId)
    }
    const batch = waiting.take(projectId)
    if (!batch) return
    const writing = writeBatch(projectId, batch).finally(() => underWay.delete(projectId))
    underWay.set(projectId, writing)
    return writing
  }

  async function writeBatch(projectId: string, batch: Batch): Promise<void> {
    const items = itemsOf(batch)
    if (batch.lines.length > 0) linesWritten(projectId)
    for (let start = 0; start < items.length; start += itemsPerBlock) {
      try {
        await store.append(control, projectId, await encode(items.slice(start, start + itemsPerBlock)))
      } catch (error) {
        if (isRefusedValue(error)) {
          // They would be refused again, and must not keep later ones from being written.
          log.error({ err: error, project: projectId }, 'log entries of a project were refused and are lost')
          continue
        }
        waiting.putBack(projectId, batchOf(items.slice(start)))
        throw error
      }
    }
  }

  async function flush(): Promise<void> {
    const projects = waiting.projects()
    const failures: unknown[] = []
    const writeNext = async () => {
      for (let id = projects.shift(); id !== undefined; id = projects.shift())
        try {
          await writeProject(id)
        } catch (error) {
          failures.push(error)
          // The database is down: the others would wait for nothing.
          if (error instanceof Refusal) projects.length = 0
        }
    }
    await Promise.all(Array.from({ length: projectsAtOnce }, writeNext))
    if (failures.length > 0) throw failures[0]
  }

  const chore = startChore({ name: 'write the logs of projects', everyMs: flushMs, run: flush }, log)

  return {
    flush,
    async stop() {
      await chore.stop()
      await flush().catch(error => log.error({ err: error }, 'the last log entries of projects are lost'))
    },
  }
}

/** The opposite of `itemsOf`. */
function batchOf(items: readonly LogItem[]): Batch {
  const lines: LogLine[] = []
  const answers: Answered[] = []
  let droppedAnswers = 0
  for (const item of items)
    if (isLine(item)) lines.push(item)
    else if (isNotice(item)) droppedAnswers += item.dropped
    else answers.push(item)
  return { lines, answers, droppedAnswers }
}

/** SQLSTATE classes 22 and 54: a value is malformed or too large. */
const isRefusedValue = (error: unknown) => /^(?:22|54)/.test(String((error as { code?: unknown }).code))
