// Rows by key over HTTP as anon, with and without the access log, on two nodes of one platform that take turns. Processes
// with the same code differ, so both are restarted several times.
// Options: --generations, --rounds, --seconds, --patience, --profile=<directory>.
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { serverOptions } from '../apps/cli/src/server-process.ts'
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { guardedSettings, withClient } from '../apps/server/src/kernel/postgres/database.ts'
import { sql } from '../apps/server/src/kernel/postgres/sql.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import { compare, interleave, report, type Sample } from './measure.ts'
import { items, requestOf, shapes } from './rows-stage.ts'
import { onStage, projectsAt, refOf, repository, type Stage, type StagedEngine } from './stage.ts'
import { loaded } from './wrk.ts'

const { values: given } = parseArgs({
  options: {
    generations: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    patience: { type: 'string', default: '5' },
    profile: { type: 'string' },
  },
})
const generations = Number(given.generations)
const roundSeconds = Number(given.seconds)
const connections = 32
const warmUpSeconds = 3
const atLeast = 0.97
const unlimited = 1_000_000_000

await onStage(async stage => {
  const engine = await stage.engine()
  const project = await createProject(stage, engine)
  const request = requestOf(project, shapes.byKey)
  const file = join(stage.dataDir('scripts'), 'load.lua')
  const samples: Record<'on' | 'off', Sample[]> = { on: [], off: [] }
  for (let count = 0; count < generations; count++) {
    const [on, off] = [
      await startNode(stage, engine, `on-${count}`, {}),
      await startNode(stage, engine, `off-${count}`, { ACCESS_LOG: 'off' }),
    ]
    const load = (node: typeof on, seconds: number) =>
      loaded(node, engine.postmaster, request, { file, seconds, connections })
    for (const node of [on, off]) await load(node, warmUpSeconds)
    const more = await interleave(
      Number(given.rounds),
      { on: () => load(on, roundSeconds), off: () => load(off, roundSeconds) },
      Number(given.patience) * 1000,
    )
    samples.on.push(...more.on)
    samples.off.push(...more.off)
    for (const node of [on, off]) await node.stop()
  }
  await checkLogged(engine, project.projectId)
  const throughput = compare(samples.on, samples.off, each => each['per_second']!)
  const cpu = compare(samples.on, samples.off, each => each['node_cpu_us']! + each['postgres_cpu_us']!)
  report({
    bench: 'telemetry',
    subject: 'one row by primary key, with the access log',
    target: { atLeast },
    measured: throughput.ratio,
    unit: 'of the throughput without it',
    range: throughput.range,
    cpu_ratio: cpu.ratio,
    cpu_ratio_range: cpu.range,
    on: throughput.measured,
    off: throughput.reference,
    rounds: throughput.rounds,
    generations,
    round_seconds: roundSeconds,
  })
})

function startNode(stage: Stage, engine: StagedEngine, name: string, env: Record<string, string>) {
  const script = join(repository, 'bench/platform-of-telemetry.ts')
  const profiling = given.profile ? ['--cpu-prof', `--cpu-prof-dir=${given.profile}`] : []
  const settings = { ...engine.env, PLATFORM_DATA_DIR: stage.dataDir(name), RUNTIME_PORT: '0', ...env }
  return stage.server(script, settings, [...serverOptions, ...profiling])
}

async function createProject(stage: Stage, engine: StagedEngine) {
  const node = await startNode(stage, engine, 'create', {})
  const quotas = { rate_limit_anon: unlimited }
  const project = await projectsAt(node.url, engine.adminToken).create({ body: { name: 'bench', quotas } })
  const database = await refOf(engine.address, project.id)
  const owner = createLogins(engine.address, keyring(engine.controlPlaneSecret)).address(database, 'owner')
  await withClient(owner, database, {}, async session => {
    for (const statement of items) await session.script(statement)
    await session.script('vacuum analyze')
  })
  await node.stop()
  return {
    projectId: project.id,
    anon: { apikey: project.anon_key },
    path: (rest: string) => `/v1/rest/${project.id}/${rest}`,
  }
}

/** The figures count only if requests were logged and none were dropped. */
async function checkLogged(engine: StagedEngine, projectId: string): Promise<void> {
  const found = await withClient(engine.address, 'plinth', guardedSettings, session =>
    session.row<{ blocks: string; notices: string }>(sql`
      select count(*) as blocks, count(*) filter (where content like '%,-1,%') as notices
        from public.access_log_blocks where project_id = ${projectId}`),
  )
  if (Number(found!.blocks) === 0 || Number(found!.notices) > 0)
    throw new Error(
      `The access log has ${found!.blocks} blocks, ${found!.notices} of them with dropped requests`,
    )
}
