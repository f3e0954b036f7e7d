// CPU from the start of the process to a 200 from /health, in a data directory that was used before; and the memory of the
// idle platform afterwards.
import { setTimeout as sleep } from 'node:timers/promises'
import {
  cpuMicros,
  familyCpuMicros,
  familyProportionalMegabytes,
  medians,
  report,
  residentMegabytes,
  type Sample,
} from './measure.ts'
import { engineIn, onStage, type Stage, startMain } from './stage.ts'

const starts = 5
const idleMs = 10_000

async function start(stage: Stage, dataDir: string, idle: number): Promise<Sample> {
  const since = performance.now()
  const platform = await startMain(stage, {}, dataDir)
  const reply = await fetch(`${platform.url}/health`)
  const wallMs = performance.now() - since
  const { postmaster } = engineIn(dataDir)
  const node_cpu_ms = cpuMicros(platform.pid) / 1000
  const postgres_cpu_ms = familyCpuMicros(postmaster) / 1000
  if (reply.status !== 200) throw new Error(`/health answered ${reply.status}`)
  await sleep(idle)
  const sample = {
    cpu_ms: node_cpu_ms + postgres_cpu_ms,
    node_cpu_ms,
    postgres_cpu_ms,
    wall_ms: wallMs,
    node_rss_mb: residentMegabytes(platform.pid),
    postgres_pss_mb: familyProportionalMegabytes(postmaster),
    idle_node_cpu_ms_per_second: ((cpuMicros(platform.pid) / 1000 - node_cpu_ms) / idle) * 1000,
    idle_postgres_cpu_ms_per_second: ((familyCpuMicros(postmaster) / 1000 - postgres_cpu_ms) / idle) * 1000,
  }
  await platform.stop()
  return sample
}

await onStage(async stage => {
  const dataDir = stage.dataDir('platform')
  const first = await start(stage, dataDir, 1000)
  const warm: Sample[] = []
  for (let count = 0; count < starts; count++) warm.push(await start(stage, dataDir, idleMs))
  const typical = medians(warm)
  report({
    bench: 'warm-start',
    subject: 'CPU of Node and Postgres from a warm start to a 200 from /health',
    target: { atMost: 2000 },
    measured: typical['cpu_ms']!,
    unit: 'ms of CPU',
    excellent: 1000,
    ...typical,
    starts: warm.length,
    first_start_cpu_ms: first['cpu_ms'],
  })
  report({
    bench: 'warm-start',
    subject: `RSS of the platform process after ${idleMs / 1000} idle seconds`,
    target: { atMost: 150 },
    measured: typical['node_rss_mb']!,
    unit: 'MB',
    excellent: 100,
    postgres_pss_mb: typical['postgres_pss_mb'],
    idle_node_cpu_ms_per_second: typical['idle_node_cpu_ms_per_second'],
    idle_postgres_cpu_ms_per_second: typical['idle_postgres_cpu_ms_per_second'],
  })
})
