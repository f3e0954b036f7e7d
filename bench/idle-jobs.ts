// CPU cost of scheduled jobs that are not due: the same platform idles without and with them, alternating.
import { setTimeout as sleep } from 'node:timers/promises'
import { client } from '@plinth/contract/client.ts'
import { cronApi } from '@plinth/contract/cron.ts'
import {
  cpuMicros,
  familyCpuMicros,
  interleave,
  median,
  medians,
  report,
  rounded,
  type Sample,
} from './measure.ts'
import { engineIn, onStage, projectsAt, startMain } from './stage.ts'

const count = Number(process.argv[2] ?? 1000)
const idleMs = Number(process.argv[3] ?? 60_000)
const projectCount = 10
const rounds = 2
const settleMs = 5000
const unlimited = { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0' }

await onStage(async stage => {
  const dataDir = stage.dataDir('platform')
  const platform = await startMain(stage, unlimited, dataDir)
  const { adminToken, postmaster } = engineIn(dataDir)
  const projects = projectsAt(platform.url, adminToken)
  const created = await Promise.all(
    Array.from({ length: projectCount }, (_, index) => projects.create({ body: { name: `bench ${index}` } })),
  )
  const jobs = Array.from({ length: count }, (_, index) => {
    const { id, service_role_key } = created[index % created.length]!
    const cron = client(cronApi, { baseUrl: platform.url, token: service_role_key })
    return { cron, project: id, name: `job ${index}`, schedule: scheduleOf(index), command: 'select 1' }
  })

  /** Idle: no calls, and no connections that wait to be closed. */
  async function idle(): Promise<Sample> {
    await sleep(settleMs)
    const before = {
      node: cpuMicros(platform.pid),
      postgres: familyCpuMicros(postmaster),
      at: performance.now(),
    }
    await sleep(idleMs)
    const seconds = (performance.now() - before.at) / 1000
    const node = (cpuMicros(platform.pid) - before.node) / 1000 / seconds
    const postgres = (familyCpuMicros(postmaster) - before.postgres) / 1000 / seconds
    return {
      node_cpu_ms_per_second: node,
      postgres_cpu_ms_per_second: postgres,
      percent: (node + postgres) / 10,
    }
  }

  const samples = await interleave(rounds, {
    async without() {
      await Promise.all(
        jobs.map(({ cron, project, name }) => cron.unschedule({ params: { project, name } }).catch(() => {})),
      )
      return idle()
    },
    async withJobs() {
      for (const { cron, project, name, schedule, command } of jobs)
        await cron.schedule({ params: { project }, body: { name, schedule, command } })
      return idle()
    },
  })
  const added = samples.withJobs.map(
    (sample, round) => sample['percent']! - samples.without[round]!['percent']!,
  )
  const common = {
    bench: 'idle-jobs',
    unit: '% of a core',
    projects: projectCount,
    idle_without_jobs: medians(samples.without),
    idle_with_jobs: medians(samples.withJobs),
    rounds,
  }
  report({
    ...common,
    subject: `CPU of an idle platform, Postgres included, with ${count} scheduled jobs`,
    target: { atMost: 1 },
    measured: medians(samples.withJobs)['percent']!,
  })
  report({
    ...common,
    subject: `part of it that the ${count} jobs add`,
    measured: median(added),
    in_each_round: added.map(rounded),
  })
})

/** Schedules spread over the nights of a year, none within the next two days. */
function scheduleOf(index: number): string {
  const day = new Date(Date.now() + (3 + (index % 360)) * 86_400_000)
  return `${index % 60} ${index % 24} ${day.getUTCDate()} ${day.getUTCMonth() + 1} *`
}
