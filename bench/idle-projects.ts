// What projects cost that nobody calls: connections, memory of the platform process, CPU.
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
  const made: Keys[] = []
  const course: number[] = []
  while (made.length < count) {
    const batch = Array.from({ length: Math.min(atOnce, count - made.length) }, (_, index) =>
      projects.create({ body: { name: `bench ${made.length + index}` } }),
    )
    made.push(...(await Promise.all(batch)))
    if (made.length % 40 === 0) course.push(rounded(residentMegabytes(platform.pid)))
  }
  await callEach(platform, 'whoami', made)
  await tell('created and each called once', platform, dataDir, before, { rss_mb_every_40_projects: course })
  const stopMs = await timed(() => platform.stop())

  // A route of the bench's own: it asks a project's database and reads nothing of its schema.
  const script = fileURLToPath(new URL('platform-with-select.ts', import.meta.url))
  let selecting!: StagedServer
  const startMs = await timed(async () => {
    selecting = await stage.server(script, { PLATFORM_DATA_DIR: dataDir, ...unlimited })
    await fetch(`${selecting.url}/health`)
  })
  const startCpuMs = (cpuMicros(selecting.pid) + familyCpuMicros(engineIn(dataDir).postmaster)) / 1000
  await sleep(2000)
  const restarted = residentMegabytes(selecting.pid)
  await callEach(selecting, 'whoami', made)
  await callEach(selecting, 'select', made)
  await callEach(selecting, 'select', made)
  const { connections: open } = await connectionsTo(dataDir)
  await tell('after a restart, each asked select 1 twice', selecting, dataDir, restarted, {
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

async function callEach({ url }: StagedServer, service: string, projects: Keys[]): Promise<void> {
  for (const { id, anon_key } of projects) {
    const reply = await fetch(`${url}/v1/${service}/${id}`, { headers: { apikey: anon_key } })
    const text = await reply.text()
    if (reply.status !== 200) throw new Error(`${service} answered ${reply.status}: ${text}`)
  }
}

async function connectionsTo(dataDir: string): Promise<{ connections: number; others: number }> {
  const [row] = await asSuperuser(engineIn(dataDir).address, session =>
    session.rows<{ connections: number; others: number }>(sql`
      select count(*) filter (where datname ~ '^p_')::int as connections,
             count(*) filter (where datname !~ '^p_')::int - 1 as others
        from pg_stat_activity where backend_type = 'client backend'`),
  )
  return row!
}

async function tell(
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
  const facts = {
    projects: count,
    rss_mb: { before: rounded(before), after_the_calls: rounded(busy), after_a_minute: rounded(resident) },
    postgres_pss_mb: rounded(familyProportionalMegabytes(postmaster)),
    idle_node_cpu_ms_per_second: perSecond(cpuMicros(pid) - cpu.node),
    idle_postgres_cpu_ms_per_second: perSecond(familyCpuMicros(postmaster) - cpu.postgres),
    ...details,
  }
  const { connections, others } = await connectionsTo(dataDir)
  const bench = 'idle-projects'
  const subject = (what: string) => `${what} a minute after ${count} projects: ${state}`
  report({
    bench,
    subject: subject('connections to projects'),
    target: { atMost: 0 },
    measured: connections,
    unit: 'connections',
    connections_to_the_control_database: others,
    ...facts,
  })
  report({
    bench,
    subject: subject('RSS of Node'),
    target: { atMost: 200 },
    measured: resident,
    unit: 'MB',
    ...facts,
  })
  report({
    bench,
    subject: subject('growth of RSS per project'),
    target: { atMost: 0.1 },
    measured: (resident - before) / count,
    unit: 'MB',
    excellent: 0.02,
    ...facts,
  })
}
