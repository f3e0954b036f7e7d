// Edge functions: a warm call against the platform's own empty authenticated route, a cold start against a bare
// `deno run` of the same file, and the memory of idle workers. Options: --rounds, --seconds, --patience, --starts, --only.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { client } from '@plinth/contract/client.ts'
import { functionsManagementApi } from '@plinth/contract/functions.ts'
import { secretsApi } from '@plinth/contract/secrets.ts'
import {
  childrenOf,
  compare,
  cpuMicros,
  familyProportionalMegabytes,
  interleave,
  report,
  type Sample,
} from './measure.ts'
import { onStage, projectsAt, type Stage, type StagedEngine, type StagedServer, startMain } from './stage.ts'
import { wrk } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '2' },
    patience: { type: 'string', default: '5' },
    starts: { type: 'string', default: '40' },
    only: { type: 'string', multiple: true, default: ['warm', 'cold', 'memory'] },
  },
})
const connections = 32
const workers = 16
const code = `Deno.serve(() => new Response('{"hello":"world"}', { headers: { 'content-type': 'application/json' } }))`
const settings = { PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0', PLATFORM_LOG_LEVEL: 'silent', RUNTIME_PORT: '0' }
const quotas = { function_invocations_per_minute: 100_000_000, function_concurrency: 1000 }

interface Project {
  id: string
  service_role_key: string
}

await onStage(async stage => {
  const engine = await stage.engine()
  const platform = await startMain(stage, { ...engine.env, ...settings })
  if (given.only.includes('warm')) await measureWarm(stage, engine, platform)
  if (given.only.includes('cold')) await measureCold(stage, engine, platform)
  if (given.only.includes('memory')) await measureMemory(engine, platform)
})

async function createProject(engine: StagedEngine, { url }: StagedServer, name: string): Promise<Project> {
  const project = await projectsAt(url, engine.adminToken).create({ body: { name, quotas } })
  const functions = client(functionsManagementApi, { baseUrl: url, token: engine.adminToken })
  await functions.create({ params: { id: project.id }, body: { name: 'hello', code } })
  return project
}

function pathOf({ id }: Project): string {
  return `/v1/functions/${id}/hello`
}

function headersOf({ service_role_key }: Project) {
  return { authorization: `Bearer ${service_role_key}` }
}

async function call(platform: StagedServer, project: Project): Promise<number> {
  const since = performance.now()
  const reply = await fetch(platform.url + pathOf(project), { headers: headersOf(project) })
  const text = await reply.text()
  if (reply.status !== 200) throw new Error(`the function answered ${reply.status}: ${text}`)
  return performance.now() - since
}

async function measureWarm(stage: Stage, engine: StagedEngine, platform: StagedServer): Promise<void> {
  const project = await createProject(engine, platform, 'warm')
  const file = join(stage.dataDir('wrk'), 'load.lua')
  const headers = headersOf(project)
  const paths = { function: pathOf(project), whoami: `/v1/whoami/${project.id}` }
  const load = async (path: string, seconds: number, clients: number): Promise<Sample> => {
    const before = cpuMicros(platform.pid)
    const done = await wrk(platform.url, { path, headers }, { file, seconds, connections: clients })
    return {
      per_second: done.perSecond,
      node_cpu_us: (cpuMicros(platform.pid) - before) / done.requests,
      p50_ms: done.p50Ms,
      p99_ms: done.p99Ms,
    }
  }
  for (const path of [paths.function, paths.whoami, paths.function]) await load(path, 2, connections)
  const rounds = (clients: number) =>
    interleave(
      Number(given.rounds),
      {
        function: () => load(paths.function, Number(given.seconds), clients),
        whoami: () => load(paths.whoami, Number(given.seconds), clients),
      },
      Number(given.patience) * 1000,
    )
  const many = await rounds(connections)
  const throughput = compare(many.function, many.whoami, each => each['per_second']!)
  report({
    bench: 'functions',
    subject: 'a warm call',
    target: { atLeast: 0.5 },
    measured: throughput.ratio,
    unit: 'of the throughput of whoami',
    range: throughput.range,
    cpu_ratio: compare(many.whoami, many.function, each => each['node_cpu_us']!).ratio,
    ours: throughput.measured,
    whoami: throughput.reference,
    rounds: throughput.rounds,
  })
  const single = await rounds(1)
  const latency = compare(single.function, single.whoami, each => each['p50_ms']!)
  report({
    bench: 'functions',
    subject: 'p50 of a warm call from one client',
    target: { atMost: 1 },
    measured: latency.measured['p50_ms']! - latency.reference['p50_ms']!,
    unit: 'ms more than whoami',
    ours: latency.measured,
    whoami: latency.reference,
    rounds: latency.rounds,
  })
}

/** A changed secret replaces the worker, so each call starts one. */
async function measureCold(stage: Stage, engine: StagedEngine, platform: StagedServer): Promise<void> {
  const project = await createProject(engine, platform, 'cold')
  const secrets = client(secretsApi, { baseUrl: platform.url, token: engine.adminToken })
  const directory = stage.dataDir('bare')
  const times = { ours: [] as number[], bare: [] as number[] }
  const starts = Number(given.starts)
  for (let start = 0; start < starts + 2; start++) {
    await secrets.save({ params: { id: project.id }, body: { name: 'ROUND', value: String(start) } })
    const ours = await call(platform, project)
    const bare = await bareStart(directory)
    // The first ones fill caches of files.
    if (start < 2) continue
    times.ours.push(ours)
    times.bare.push(bare)
  }
  const p95 = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[Math.ceil(numbers.length * 0.95) - 1]!
  const p50 = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!
  report({
    bench: 'functions',
    subject: 'p95 of a cold start',
    target: { atMost: 2 },
    measured: p95(times.ours) / p95(times.bare),
    unit: 'times that of a bare deno run',
    ours_ms: p95(times.ours),
    bare_ms: p95(times.bare),
    p50_ratio: p50(times.ours) / p50(times.bare),
    starts,
  })
}

/** From the start of Deno to its first answer, with the same code. */
async function bareStart(directory: string): Promise<number> {
  const name = `@deno/${process.platform}-${process.arch}${process.platform === 'linux' ? '-glibc' : ''}`
  const require = createRequire(new URL('../apps/server/package.json', import.meta.url))
  const program = join(dirname(require.resolve(`${name}/package.json`)), 'deno')
  const socketPath = join(directory, `${Math.random()}`.slice(2))
  const file = join(directory, 'index.ts')
  writeFileSync(
    file,
    code.replace('Deno.serve(', 'Deno.serve({ path: Deno.args[0], onListen() { console.log("ready") } }, '),
  )
  const since = performance.now()
  const child = spawn(program, ['run', '--quiet', '--no-check', '--allow-all', file, socketPath], {
    env: { DENO_DIR: join(directory, 'deno'), HOME: directory, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await new Promise(resolve => child.stdout.once('data', resolve))
  await new Promise((resolve, reject) => {
    request({ socketPath, path: '/' }, reply => reply.resume().once('end', resolve))
      .once('error', reject)
      .end()
  })
  const ms = performance.now() - since
  child.kill('SIGKILL')
  return ms
}

async function measureMemory(engine: StagedEngine, platform: StagedServer): Promise<void> {
  for (let number = 0; number < workers; number++)
    await call(platform, await createProject(engine, platform, `memory ${number}`))
  await sleep(5000)
  const isWorker = (pid: number) => familyProportionalMegabytes(pid) > 10
  const each = childrenOf(platform.pid).filter(isWorker).map(familyProportionalMegabytes)
  report({
    bench: 'functions',
    subject: `PSS of the largest of ${each.length} idle workers`,
    target: { atMost: 45 },
    measured: Math.max(...each),
    unit: 'MB',
    smallest: Math.min(...each),
  })
}
