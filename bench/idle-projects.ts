// Cost of idle projects: connections, memory of the platform process, CPU.
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { sql } from '../apps/server/src/kernel/postgres/sql.ts'
import {
  cpuMicros,
  familyCpuMicros,
  familyProportionalMegabytes,
  report,
  residentMegabytes,
  rounded,
} from './measure.ts'
import { asSuperuser, engineIn, onStage, projectsAt, type StagedServer, startMain } from './stage.ts'

const count = Number(process.argv[2] ?? 200)
const idleMs = Number(process.argv[3] ?? 60_000)
const atOnce = 4
const unlimited = { PLATFORM_RATE_LIMIT_ANON: '0' }

interface Keys {
  id: string
  anon_key: string
}

await onStage(async stage => {
  const dataDir = stage.dataDir('platform')
  const platform = await startMain(stage, unlimited, dataDir)
  const { adminToken } = engineIn(dataDir)
  const projects = projectsAt(platform.url, adminToken)
  await fetch(`${platform.url}/health`)
  await sleep(2000)

  const before = residentMegabytes(platform.pid)
  const created: Keys[] = []
  const rssHistory: number[] = []
  while (created.length < count) {
    const batch = Array.from({ length: Math.min(atOnce, count - created.length) }, (_, index) =>
      projects.create({ body: { name: `bench ${created.length + index}` } }),
    )
    created.push(...(await Promise.all(batch)))
    if (created.length % 40 === 0) rssHistory.push(rounded(residentMegabytes(platform.pid)))
  }
  await callAll(platform, 'whoami', created)
  await reportResult('created and each called once', platform, dataDir, before, {
    rss_mb_every_40_projects: rssHistory,
  })
  const stopMs = await timed(() => platform.stop())

  // A route of the benchmark that queries the project database without reading its schema.
  const script = fileURLToPath(new URL('platform-with-select.ts', import.meta.url))
  let withSelect!: StagedServer
  const startMs = await timed(async () => {
    withSelect = await stage.server(script, { PLATFORM_DATA_DIR: dataDir, ...unlimited })
    await fetch(`${withSelect.url}/health`)
  })
  const startCpuMs = (cpuMicros(withSelect.pid) + familyCpuMicros(engineIn(dataDir).postmaster)) / 1000
  await sleep(2000)
  const restarted = residentMegabytes(withSelect.pid)
  await callAll(withSelect, 'whoami', created)
  await callAll(withSelect, 'select', created)
  await callAll(withSelect, 'select', created)
  const { connections: open } = await countConnections(dataDir)
  await reportResult('after a restart, each ran select 1 twice', withSelect, dataDir, restarted, {
    connections_right_after_the_calls: open,
    stop_wall_ms: stopMs,
    restart_wall_ms: startMs,
    restart_cpu_ms: startCpuMs,
  })
})

async function timed(work: () => Promise<void>): Promise<number> {
  const since = performance.now()
  await work()
  return rounded(performance.now() - since)
}

async function callAll({ url }: StagedServer, service: string, projects: Keys[]): Promise<void> {
  for (const { id, anon_key } of projects) {
    const reply = await fetch(`${url}/v1/${service}/${id}`, { headers: { apikey: anon_key } })
    const text = await reply.text()
    if (reply.status !== 200) throw new Error(`${service} answered ${reply.status}: ${text}`)
  }
}

async function countConnections(dataDir: string): Promise<{ connections: number; others: number }> {
  const [row] = await asSuperuser(engineIn(dataDir).address, session =>
    session.rows<{ connections: number; others: number }>(sql`
      select count(*) filter (where datname ~ '^p_')::int as connections,
             count(*) filter (where datname !~ '^p_')::int - 1 as others
        from pg_stat_activity where backend_type = 'client backend'`),
  )
  return row!
}

async function reportResult(
  state: string,
  { pid }: StagedServer,
  dataDir: string,
  before: number,
  details: object,
): Promise<void> {
  const { postmaster } = engineIn(dataDir)
  const busy = residentMegabytes(pid)
  await sleep(idleMs / 2)
  const cpu = { node: cpuMicros(pid), postgres: familyCpuMicros(postmaster) }
  await sleep(idleMs / 2)
  const perSecond = (micros: number) => rounded(micros / 1000 / (idleMs / 2000))
  const resident = residentMegabytes(pid)
  const common = {
    projects: count,
    rss_mb: { before: rounded(before), after_the_calls: rounded(busy), after_a_minute: rounded(resident) },
    postgres_pss_mb: rounded(familyProportionalMegabytes(postmaster)),
    idle_node_cpu_ms_per_second: perSecond(cpuMicros(pid) - cpu.node),
    idle_postgres_cpu_ms_per_second: perSecond(familyCpuMicros(postmaster) - cpu.postgres),
    ...details,
  }
  const { connections, others } = await countConnections(dataDir)
  const bench = 'idle-projects'
  const subject = (metric: string) => `${metric} a minute after ${count} projects: ${state}`
  report({
    bench,
    subject: subject('connections to projects'),
    target: { atMost: 0 },
    measured: connections,
    unit: 'connections',
    connections_to_the_control_database: others,
    ...common,
  })
  report({
    bench,
    subject: subject('RSS of Node'),
    target: { atMost: 200 },
    measured: resident,
    unit: 'MB',
    ...common,
  })
  report({
    bench,
    subject: subject('growth of RSS per project'),
    target: { atMost: 0.1 },
    measured: (resident - before) / count,
    unit: 'MB',
    excellent: 0.02,
    ...common,
  })
}
