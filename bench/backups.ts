// Backups of a project of 1 GB: how long one takes against a COPY of the same tables by Postgres itself, the memory of the
// platform meanwhile, reads by key meanwhile, a verification against the backup, and the gap that a restore leaves.
// Options: --megabytes, --rounds, --patience (seconds).
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Backup, backupsApi, type Restore } from '@plinth/contract/backups.ts'
import { type Client, client } from '@plinth/contract/client.ts'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { sql } from '../apps/server/src/kernel/postgres/sql.ts'
import {
  compare,
  cpuMicros,
  familyCpuMicros,
  interleave,
  report,
  residentMegabytes,
  rounded,
  type Sample,
} from './measure.ts'
import { type RowsStage, requestOf, shapes, stageRows } from './rows-stage.ts'
import { engineIn, onStage, type StagedServer } from './stage.ts'
import { loaded } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    megabytes: { type: 'string', default: '1024' },
    rounds: { type: 'string', default: '3' },
    patience: { type: 'string', default: '10' },
  },
})
const rounds = Number(given.rounds)
const patienceMs = Number(given.patience) * 1000
/** A row takes about 1 kB with its indexes. */
const documents = Number(given.megabytes) * 1000
const pollMs = 200
const memoryPollMs = 20
const loadSeconds = 5
const connections = 16

const tables = [
  `create table documents (
     id bigint primary key, owner uuid not null, title text not null, body text, data jsonb, tags text[], at timestamptz)`,
  `insert into documents
   select i, gen_random_uuid(), 'document ' || i,
          md5(i::text) || md5((i + 1)::text) || repeat(md5((i + 2)::text) || ' and ', 8),
          jsonb_build_object('kind', i % 20, 'key', md5(i::text)), array['t' || i % 50, 't' || i % 7], now() - i * interval '1 s'
     from generate_series(1, ${documents}) i`,
  'create index on documents (owner)',
  'create index on documents (title)',
  'create index on documents using gin (tags)',
]

interface Measured {
  rows: RowsStage
  platform: StagedServer
  api: Client<typeof backupsApi>
  params: { id: string }
}

await onStage(async stage => {
  const rows = await stageRows(stage, tables)
  const platform = await rows.start()
  const { adminToken } = engineIn(rows.dataDir)
  const api = client(backupsApi, { baseUrl: platform.url, token: adminToken })
  const measured: Measured = { rows, platform, api, params: { id: rows.projectId } }
  await api.configure({ params: measured.params, body: { verify_enabled: false, retain_count: 2 } })
  const size = await databaseMegabytes(rows)
  const last = await backUp(measured)
  await measureBackups(measured, size)
  await measureReads(measured)
  await measureVerification(measured, last)
  await measureRestore(measured, last)
  await platform.stop()
})

async function databaseMegabytes({ dataDir, database }: RowsStage): Promise<number> {
  const row = await withClient(engineIn(dataDir).address, database, guardedSettings, session =>
    session.row<{ bytes: string }>(sql`select pg_database_size(current_database()) as bytes`),
  )
  return rounded(Number(row!.bytes) / 2 ** 20)
}

async function measureBackups(measured: Measured, size: number): Promise<void> {
  const { rows, platform } = measured
  const { postmaster } = rows.postgres()
  const cpu = () => ({ node: cpuMicros(platform.pid), postgres: familyCpuMicros(postmaster) })
  const idle = residentMegabytes(platform.pid)
  let peak = idle
  const backup = async (): Promise<Sample> => {
    const before = cpu()
    const { result, peakMegabytes } = await withPeak(platform, () => backUp(measured))
    peak = Math.max(peak, peakMegabytes)
    const after = cpu()
    return {
      seconds: secondsOf(result),
      node_cpu_seconds: (after.node - before.node) / 1e6,
      postgres_cpu_seconds: (after.postgres - before.postgres) / 1e6,
      stored_megabytes: result.stored_bytes / 2 ** 20,
    }
  }
  const samples = await interleave(rounds, { backup, copy: () => copyAll(measured) }, patienceMs)
  const { ratio, measured: own, ...details } = compare(samples.backup, samples.copy, each => each['seconds']!)
  report({
    bench: 'backups',
    subject: `a backup of ${size} MB against COPY of the same tables to /dev/null by the server`,
    target: { atMost: 1.5 },
    measured: ratio,
    unit: 'times its seconds',
    own,
    ...details,
  })
  report({
    bench: 'backups',
    subject: 'peak RSS over idle during the backups',
    target: { atMost: 100 },
    measured: peak - idle,
    unit: 'MB',
    idle: rounded(idle),
  })
}

/** By the server itself, one table after the other. */
async function copyAll({ rows: { dataDir, database } }: Measured): Promise<Sample> {
  return withClient(engineIn(dataDir).address, database, guardedSettings, async session => {
    const names = await session.rows<{ name: string }>(sql`
      select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'`)
    const start = performance.now()
    for (const { name } of names) await session.script(`copy ${name} to '/dev/null'`)
    return { seconds: (performance.now() - start) / 1000 }
  })
}

async function measureReads(measured: Measured): Promise<void> {
  const { rows, platform } = measured
  const { postmaster } = rows.postgres()
  const options = { file: rows.file('reads.lua'), seconds: loadSeconds, connections }
  const reads = () => loaded(platform, postmaster, requestOf(rows, shapes.byKey), options)
  await reads()
  const during = async (): Promise<Sample> => {
    const backup = backUp(measured)
    const sample = await reads()
    return { ...sample, backup_seconds: secondsOf(await backup) }
  }
  const samples = await interleave(rounds, { during, alone: reads }, patienceMs)
  const {
    ratio,
    measured: own,
    ...details
  } = compare(samples.during, samples.alone, each => each['per_second']!)
  report({
    bench: 'backups',
    subject: `reads by key over ${connections} connections during a backup`,
    target: { atLeast: 0.8 },
    measured: ratio,
    unit: 'of their throughput without one',
    own,
    ...details,
  })
}

async function measureVerification({ api, params }: Measured, backup: Backup): Promise<void> {
  const started = performance.now()
  await api.verify({ params: { ...params, backup_id: backup.id } })
  const ended = await until(async () => {
    const found = await findBackup(api, params, backup.id)
    return found.progress === null ? found : undefined
  })
  if (ended.verify_error !== null) throw new Error(ended.verify_error)
  const seconds = (performance.now() - started) / 1000
  report({
    bench: 'backups',
    subject: 'a verification',
    target: { atMost: 6 },
    measured: seconds / secondsOf(backup),
    unit: 'times the seconds of the backup',
    seconds: rounded(seconds),
    backup_seconds: rounded(secondsOf(backup)),
  })
}

/** Reads a row one time after the other while the restore runs, and finds the longest time without a success. */
async function measureRestore({ api, params, rows, platform }: Measured, backup: Backup): Promise<void> {
  const started = performance.now()
  const { restore } = await api.restore({ params: { ...params, backup_id: backup.id }, body: null })
  const reading = startReading(rows, platform)
  const ended = await until(async () => {
    const { restores } = await api.restores({ params, query: {} })
    const found = restores.find((each: Restore) => each.id === restore.id)
    return found && found.status !== 'running' ? found : undefined
  })
  if (ended.error !== null) throw new Error(ended.error)
  const seconds = (performance.now() - started) / 1000
  const { longestMs, failed } = await reading.stop()
  report({
    bench: 'backups',
    subject: 'the longest time without a successful read while a backup is restored',
    target: { atMost: 500 },
    measured: longestMs,
    unit: 'ms',
    failed_reads: failed,
    restore_seconds: rounded(seconds),
  })
}

function startReading(rows: RowsStage, platform: StagedServer) {
  const agent = new Agent({ keepAlive: true })
  const { path, headers } = requestOf(rows, shapes.byKey)
  let isStopped = false
  let failed = 0
  let longestMs = 0
  const ended = (async () => {
    let lastSuccess = performance.now()
    while (!isStopped) {
      const sending = request(platform.url + path.replace('{id}', '1'), { agent, headers })
      const status = await new Promise<number>(resolve => {
        sending.once('error', () => resolve(0))
        sending.once('response', (reply: IncomingMessage) => {
          reply.resume()
          void once(reply, 'end').then(() => resolve(reply.statusCode!))
        })
        sending.end()
      })
      if (status === 200) {
        const now = performance.now()
        longestMs = Math.max(longestMs, now - lastSuccess)
        lastSuccess = now
      } else failed++
      await sleep(2)
    }
    agent.destroy()
  })()
  return {
    async stop() {
      isStopped = true
      await ended
      return { longestMs, failed }
    },
  }
}

async function backUp({ api, params }: Measured): Promise<Backup> {
  const { id } = await api.create({ params })
  const ended = await until(async () => {
    const found = await findBackup(api, params, id)
    return found.status === 'running' || found.progress !== null ? undefined : found
  })
  if (ended.status !== 'done') throw new Error(`the backup has failed: ${ended.error}`)
  return ended
}

async function findBackup(
  api: Client<typeof backupsApi>,
  params: { id: string },
  id: string,
): Promise<Backup> {
  const { backups } = await api.list({ params, query: {} })
  return backups.find((each: Backup) => each.id === id)!
}

function secondsOf({ created_at: from, finished_at: to }: Backup): number {
  return (Date.parse(to!) - Date.parse(from)) / 1000
}

async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    await sleep(pollMs)
  }
}

async function withPeak<T>(
  platform: StagedServer,
  work: () => Promise<T>,
): Promise<{ result: T; peakMegabytes: number }> {
  let peakMegabytes = 0
  let isOver = false
  const watching = (async () => {
    while (!isOver) {
      peakMegabytes = Math.max(peakMegabytes, residentMegabytes(platform.pid))
      await sleep(memoryPollMs)
    }
  })()
  const result = await work().finally(() => {
    isOver = true
  })
  await watching
  return { result, peakMegabytes }
}
