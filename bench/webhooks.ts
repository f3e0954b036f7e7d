// Deliveries of row changes to a receiver on this machine, against bare keep-alive clients that post the same bodies over as
// many connections: that of Node and, without a target, that of undici, which the platform builds on. From the commit of
// plain SQL to the first attempt. With --million, whether the size of the outbox tables is bounded. Options: --rounds,
// --deliveries, --commits, --patience, --million, --profile.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { client as createClient } from '@plinth/contract/client.ts'
import { webhooksApi } from '@plinth/contract/webhooks.ts'
import { guardedSettings, type OwnSession, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { sql } from '../apps/server/src/kernel/postgres/sql.ts'
import { compare, cpuMicros, familyCpuMicros, interleave, median, report, type Sample } from './measure.ts'
import { engineIn, onStage, projectsAt, refOf, type Stage, startMain } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    deliveries: { type: 'string', default: '10000' },
    commits: { type: 'string', default: '50' },
    patience: { type: 'string', default: '5' },
    million: { type: 'boolean', default: false },
    profile: { type: 'boolean', default: false },
  },
})
const deliveries = Number(given.deliveries)
const pollMs = 20
const million = { rows: 1_000_000, batch: 20_000 }

interface Seen {
  count: number
  first: number
  last: number
}

await onStage(async stage => {
  const staged = await stageWebhooks(stage)
  // Connections and code are warm, and the receiver has answered.
  await delivered(staged, 2000)
  for (const bare of ['node', 'undici'] as const) await posted(staged, bare, 2000)
  const samples = await interleave(
    Number(given.rounds),
    {
      ours: () => delivered(staged, deliveries),
      node: () => posted(staged, 'node', deliveries),
      undici: () => posted(staged, 'undici', deliveries),
    },
    Number(given.patience) * 1000,
  )
  for (const bare of ['node', 'undici'] as const) {
    const throughput = compare(samples.ours, samples[bare], each => each['per_second']!)
    report({
      bench: 'webhooks',
      subject: 'deliveries of row changes, signed and recorded',
      ...(bare === 'node' && { target: { atLeast: 0.5 } }),
      measured: throughput.ratio,
      unit: `of the throughput of a bare keep-alive client (${bare})`,
      range: throughput.range,
      ours: throughput.measured,
      reference: throughput.reference,
      rounds: throughput.rounds,
    })
  }
  await measureDelay(staged)
  if (given.million) await measureSize(staged)
  await staged.platform.stop()
})

async function stageWebhooks(stage: Stage) {
  const dataDir = stage.dataDir('platform')
  const receiver = await stage.server(new URL('webhook-receiver.ts', import.meta.url).pathname, {})
  const bare = await stage.server(new URL('webhook-bare-client.ts', import.meta.url).pathname, {})
  const platform = await startMain(
    stage,
    { PLATFORM_OUTBOUND_ALLOW: '127.0.0.1' },
    dataDir,
    given.profile ? ['--cpu-prof', `--cpu-prof-dir=${process.cwd()}`] : [],
  )
  const { address, adminToken, postmaster } = engineIn(dataDir)
  const { id } = await projectsAt(platform.url, adminToken).create({ body: { name: 'webhooks' } })
  const database = await refOf(address, id)
  const inProject = <T>(work: (session: OwnSession) => Promise<T>) =>
    withClient(address, database, guardedSettings, work)
  await inProject(session =>
    session.script(
      'create table public.entries (id bigint generated always as identity primary key, name text, body text, at timestamptz default now())',
    ),
  )
  const hooks = createClient(webhooksApi, { baseUrl: platform.url, token: adminToken })
  const { id: wid } = await hooks.create({
    params: { id },
    body: { url: `${receiver.url}/hook`, events: ['*'] },
  })
  await hooks.attach({ params: { id, wid }, body: { table: 'entries' } })
  return { platform, postmaster, address, receiver, bare, inProject, projectId: id }
}
type Staged = Awaited<ReturnType<typeof stageWebhooks>>

async function seenBy({ receiver }: Staged): Promise<Seen> {
  return (await (await fetch(`${receiver.url}/seen`)).json()) as Seen
}

async function reset({ receiver }: Staged): Promise<void> {
  await fetch(`${receiver.url}/reset`)
}

function rows(count: number): string {
  return `insert into public.entries (name, body) select 'entry', '${'of some length '.repeat(6)}' from generate_series(1, ${count})`
}

async function untilSeen(staged: Staged, count: number): Promise<Seen> {
  for (;;) {
    const seen = await seenBy(staged)
    if (seen.count >= count) return seen
    await sleep(pollMs)
  }
}

function perSecond(count: number, { first, last }: Seen): number {
  return ((count - 1) * 1000) / (last - first)
}

/** From the first delivery to the last one. */
async function delivered(staged: Staged, count: number): Promise<Sample> {
  const { platform, postmaster, inProject } = staged
  await reset(staged)
  const before = { node: cpuMicros(platform.pid), postgres: familyCpuMicros(postmaster) }
  await inProject(session => session.script(rows(count)))
  const seen = await untilSeen(staged, count)
  await untilRecorded(staged)
  return {
    per_second: perSecond(count, seen),
    node_cpu_us: (cpuMicros(platform.pid) - before.node) / count,
    postgres_cpu_us: (familyCpuMicros(postmaster) - before.postgres) / count,
  }
}

async function untilRecorded({ address }: Staged): Promise<void> {
  for (;;) {
    const waiting = await withClient(address, 'plinth', guardedSettings, session =>
      session.row<{ is_empty: boolean }>(
        sql`select not exists (select from public.webhook_queue) as is_empty`,
      ),
    )
    if (waiting!.is_empty) return
    await sleep(pollMs)
  }
}

async function posted(staged: Staged, client: 'node' | 'undici', count: number): Promise<Sample> {
  const { receiver, bare, projectId } = staged
  await reset(staged)
  const body = JSON.stringify({
    type: 'INSERT',
    table: 'entries',
    schema: 'public',
    record: { id: 1, name: 'entry', body: 'of some length '.repeat(6), at: new Date().toISOString() },
    old_record: null,
    event: 'db.public.entries.insert',
    project_id: projectId,
    timestamp: new Date().toISOString(),
  })
  const before = cpuMicros(bare.pid)
  await fetch(bare.url, {
    method: 'POST',
    body: JSON.stringify({ client, url: `${receiver.url}/hook`, body, count }),
  })
  const seen = await untilSeen(staged, count)
  return { per_second: perSecond(count, seen), node_cpu_us: (cpuMicros(bare.pid) - before) / count }
}

/** Commits of another session, which the platform is not told of. */
async function measureDelay(staged: Staged): Promise<void> {
  const delays: number[] = []
  await staged.inProject(async session => {
    for (let commit = 0; commit < Number(given.commits); commit++) {
      await reset(staged)
      await sleep(Math.random() * 200)
      await session.script(rows(1))
      const committedAt = performance.timeOrigin + performance.now()
      delays.push((await untilSeen(staged, 1)).first - committedAt)
    }
  })
  report({
    bench: 'webhooks',
    subject: 'from the commit of plain SQL to the first attempt, median',
    target: { atMost: 200 },
    measured: median(delays),
    unit: 'milliseconds',
    longest: Math.max(...delays),
    commits: delays.length,
  })
}

/**
 * The largest size of the outbox tables in each half of a million deliveries, in large statements. A size that is bounded
 * does not grow with the number of deliveries.
 */
async function measureSize(staged: Staged): Promise<void> {
  const { address, inProject } = staged
  const megabytes = (session: OwnSession, table: string) =>
    session
      .row<{ mb: number }>(sql`select pg_total_relation_size(${table}::regclass) / 1e6::float8 as mb`)
      .then(row => row!.mb)
  const sizes = async () => ({
    changes: await inProject(session => megabytes(session, 'platform.webhook_changes')),
    queue: await withClient(address, 'plinth', guardedSettings, session =>
      megabytes(session, 'public.webhook_queue'),
    ),
  })
  const largest = async (rows: number) => {
    const most = { changes: 0, queue: 0 }
    for (let done = 0; done < rows; done += million.batch) {
      await delivered(staged, million.batch)
      const now = await sizes()
      most.changes = Math.max(most.changes, now.changes)
      most.queue = Math.max(most.queue, now.queue)
    }
    return most
  }
  const first = await largest(million.rows / 2)
  const second = await largest(million.rows / 2)
  report({
    bench: 'webhooks',
    subject: `largest size of the outbox tables in the second half of ${million.rows} deliveries, ${million.batch} at a time`,
    target: { atMost: 1.1 },
    measured: (second.changes + second.queue) / (first.changes + first.queue),
    unit: 'of that in the first half',
    first_mb: first,
    second_mb: second,
    after_mb: await sizes(),
  })
}
