// Metrics of this process in the text format of Prometheus. Services declare theirs, and no label has unbounded values. Values
// from the control database are read one after the other, at most every two seconds for all scrapes together, so that
// scraping cannot load the database. A scrape does not wait long for them: without them it has `plinth_postgres_up 0`.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from './log.ts'
import type { Database, PoolUse, Session } from './postgres/database.ts'
import { type SqlFragment, sql } from './postgres/sql.ts'

export type Labels = Readonly<Record<string, string>>

/** One series. Series of the same name have the same type and different labels. */
export interface Metric {
  readonly name: string
  readonly type: 'counter' | 'gauge'
  readonly help: string
  readonly labels?: Labels
  /** Reads the value from memory. Without a value there is no sample. */
  read?(): number | undefined
  /** Reads the value from the control database. */
  poll?(session: Session): Promise<number>
}

export interface Metrics {
  add(metrics: readonly Metric[]): void
  /** Adds the lines of a part that counts on its own. */
  addLines(lines: () => readonly string[]): void
  text(): Promise<string>
}

/** Values are read again after this time. */
const freshMs = 2000
/** How long a scrape waits for the control database. */
const patienceMs = 1000
const statementTimeoutMs = 1000

interface Poll {
  startedAt: number
  isUp: boolean
  isOver: boolean
  values: Map<Metric, number>
  over: Promise<void>
}

export function createMetrics(control: Database, log: Log): Metrics {
  const metrics: Metric[] = []
  const parts: (() => readonly string[])[] = []
  let poll: Poll | undefined

  function startPoll(): Poll {
    const started: Poll = {
      startedAt: performance.now(),
      isUp: false,
      isOver: false,
      values: new Map(),
      over: Promise.resolve(),
    }
    started.over = readAll(started)
      .catch(error => log.debug({ err: error }, 'metrics: the control database does not answer'))
      .finally(() => {
        started.isOver = true
      })
    return started
  }

  async function readAll(started: Poll): Promise<void> {
    await control.row(sql`select 1`)
    started.isUp = true
    for (const metric of metrics) {
      if (!metric.poll) continue
      const value = await control
        .transaction(async session => {
          await session.run(sql`select set_config('statement_timeout', ${String(statementTimeoutMs)}, true)`)
          return metric.poll!(session)
        })
        .catch(error => log.debug({ err: error, metric: metric.name }, 'a metric could not be read'))
      if (value !== undefined) started.values.set(metric, value)
    }
  }

  /** A poll that hangs is not started again, so that it holds one connection at most. */
  async function readDatabase(): Promise<Poll> {
    if (!poll || (poll.isOver && performance.now() - poll.startedAt > freshMs)) poll = startPoll()
    const { isOver, over } = poll
    if (!isOver) await Promise.race([over, sleep(patienceMs, undefined, { ref: false })])
    return poll
  }

  return {
    add: added => void metrics.push(...added),
    addLines: lines => void parts.push(lines),
    async text() {
      const { isUp, values } = await readDatabase()
      const up: Metric = { ...postgresUp, read: () => Number(isUp) }
      const families = Map.groupBy([up, ...metrics], ({ name }) => name)
      const lines = parts.flatMap(part => part())
      for (const [name, family] of families) {
        const series = family.flatMap(metric => {
          const value = metric.read ? metric.read() : values.get(metric)
          return value === undefined ? [] : [sampleLine(name, metric.labels, value)]
        })
        if (series.length > 0) lines.push(...head(name, family[0]!.type, family[0]!.help), ...series)
      }
      return `${lines.join('\n')}\n`
    },
  }
}

const postgresUp: Metric = {
  name: 'plinth_postgres_up',
  type: 'gauge',
  help: 'Whether the control database answers.',
}

export const head = (name: string, type: 'counter' | 'gauge' | 'histogram', help: string): string[] => [
  `# HELP ${name} ${help}`,
  `# TYPE ${name} ${type}`,
]

export const sampleLine = (name: string, labels: Labels | undefined, value: number): string => {
  const pairs = Object.entries(labels ?? {}).map(([label, text]) => `${label}="${escaped(text)}"`)
  return `${name}${pairs.length > 0 ? `{${pairs.join(',')}}` : ''} ${value}`
}

const escaped = (text: string) => text.replace(/[\\"\n]/g, char => (char === '\n' ? '\\n' : `\\${char}`))

/** Counting takes time, so it stops here. */
const maxCounted = 100_000

export async function countRows(session: Session, rows: SqlFragment): Promise<number> {
  const counted = await session.row<{ count: string }>(
    sql`select count(*) from (${rows} limit ${maxCounted}) counted`,
  )
  return Number(counted!.count)
}

export const queueDepth = (queue: string, poll: (session: Session) => Promise<number>): Metric => ({
  name: 'plinth_queue_depth',
  type: 'gauge',
  help: `Entries that wait in a queue of the control database, counted up to ${maxCounted}.`,
  labels: { queue },
  poll,
})

export const workerMetrics = (
  worker: string,
  use: () => { running: number; slots: number },
): readonly Metric[] => [
  {
    name: 'plinth_worker_jobs',
    type: 'gauge',
    help: 'Jobs that a worker of this node runs now.',
    labels: { worker },
    read: () => use().running,
  },
  {
    name: 'plinth_worker_slots',
    type: 'gauge',
    help: 'Jobs that a worker of this node may run at once.',
    labels: { worker },
    read: () => use().slots,
  },
]

export const poolMetrics = (pool: string, use: () => PoolUse): readonly Metric[] =>
  (
    [
      ['connections', 'Open connections of a pool.', 'open'],
      ['connections_busy', 'Connections of a pool that run statements.', 'busy'],
      ['connections_max', 'Connections that a pool may open.', 'max'],
      ['waiting', 'Statements that wait for a connection of a pool.', 'waiting'],
    ] as const
  ).map(([name, help, field]) => ({
    name: `plinth_database_${name}`,
    type: 'gauge',
    help,
    labels: { pool },
    read: () => use()[field],
  }))
