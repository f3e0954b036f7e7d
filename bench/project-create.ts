// Creating a project over HTTP against a bare CREATE DATABASE of the same template on the same server, fsync on.
import { randomBytes } from 'node:crypto'
import { identifier } from '../apps/server/src/kernel/postgres/sql.ts'
import { compare, cpuMicros, familyCpuMicros, interleave, report, type Sample } from './measure.ts'
import { asSuperuser, onStage, projectsAt, type StagedEngine, startMain } from './stage.ts'

const rounds = 12
const perRound = 8
const template = 'plinth_template'

await onStage(async stage => {
  const engine = await stage.engine()
  const platform = await startMain(stage, engine.env)
  const projects = projectsAt(platform.url, engine.adminToken)
  const name = () => `bench ${randomBytes(6).toString('hex')}`

  await asSuperuser(engine.address, async session => {
    const createProject = async () => {
      const { id } = await projects.create({ body: { name: name() } })
      return () => projects.remove({ params: { id } })
    }
    const cloneTemplate = async () => {
      const copy = identifier(`copy_${randomBytes(6).toString('hex')}`)
      await session.script(`create database ${copy} template ${template}`)
      return () => session.script(`drop database ${copy}`)
    }

    for (const make of [createProject, cloneTemplate])
      for (let count = 0; count < 3; count++) await (await make())()
    const samples = await interleave(rounds, {
      project: () => measure(engine, platform.pid, session.script, createProject),
      clone: () => measure(engine, platform.pid, session.script, cloneTemplate),
    })
    const reportResult = (subject: string, of: (sample: Sample) => number) => {
      const { ratio, range, rounds, measured, reference } = compare(samples.project, samples.clone, of)
      report({
        bench: 'project-create',
        subject,
        target: { atMost: 3 },
        measured: ratio,
        unit: 'times',
        excellent: 2,
        range,
        project: measured,
        bare_clone: reference,
        rounds,
        per_round: perRound,
      })
    }
    reportResult('time of POST /api/v1/projects against CREATE DATABASE … TEMPLATE', each => each['wall_ms']!)
    reportResult(
      'CPU of Node and Postgres for the same',
      each => each['node_cpu_us']! + each['postgres_cpu_us']!,
    )
  })
})

/** A checkpoint runs before, so that both start equal. The new databases are dropped after the measurement. */
async function measure(
  { postmaster }: StagedEngine,
  node: number,
  script: (text: string) => Promise<void>,
  make: () => Promise<() => Promise<unknown>>,
): Promise<Sample> {
  await script('checkpoint')
  const before = { node: cpuMicros(node), postgres: familyCpuMicros(postmaster) }
  const undo: (() => Promise<unknown>)[] = []
  const ms: number[] = []
  for (let count = 0; count < perRound; count++) {
    const since = performance.now()
    undo.push(await make())
    ms.push(performance.now() - since)
  }
  const sample = {
    wall_ms: ms.toSorted((a, b) => a - b)[perRound >> 1]!,
    node_cpu_us: (cpuMicros(node) - before.node) / perRound,
    postgres_cpu_us: (familyCpuMicros(postmaster) - before.postgres) / perRound,
  }
  for (const step of undo) await step()
  return sample
}
