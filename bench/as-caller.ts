// `asCaller` of `select 1` against pgbench in pipeline mode sending the same statements with the same values,
// as the same login, over the same socket.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { keyring } from '../apps/server/src/kernel/crypto/keys.ts'
import { createLogins } from '../apps/server/src/tenancy/logins.ts'
import type { Assignment, Round } from './as-caller-worker.ts'
import { compare, familyCpuMicros, interleave, report, type Sample } from './measure.ts'
import { pgbench } from './pgbench.ts'
import { onStage, projectsAt, refOf, type StagedEngine, startMain } from './stage.ts'

// Our process is restarted several times, because processes with the same code differ (see admission.ts).
const generations = 4
const roundsEach = 4
const roundSeconds = 2
// The same as for the pipelined connections of kernel/postgres/pool.ts.
const connections = 2
const depth = 16

const claims = '{"role":"anon"}'
const userId = '00000000-0000-4000-8000-000000000001' // pgbench accepts no empty value
const sql = 'select 1'
const facts = {
  method: 'GET',
  path: '/v1/rest/00000000-0000-4000-8000-000000000000/notes',
  headers: '{"accept":"*/*","host":"127.0.0.1:39001","user-agent":"bench"}',
}
// What tenancy/become-caller.ts sets, written by hand, with pgbench's names of the parameters.
const become = `select set_config('role', :role, true), set_config('request.jwt.claims', :claims, true), set_config('request.user_id', :user, true), set_config('request.method', :method, true), set_config('request.path', :path, true), set_config('request.headers', :headers, true), set_config('statement_timeout', :timeout, true)`
const becomeWithReset = `${become}, pg_advisory_unlock_all()`
const values = { role: 'anon', claims, user: userId, timeout: '3000', ...facts }
const cpuOf = (sample: Sample) => sample['client_cpu_us']! + sample['postgres_cpu_us']!

await onStage(async stage => {
  const engine = await stage.engine()
  // Creates the project and stops, because its watchdog would count as CPU of Postgres.
  const platform = await startMain(stage, engine.env)
  const { id } = await projectsAt(platform.url, engine.adminToken).create({ body: { name: 'bench' } })
  await platform.stop()
  const ref = await refOf(engine.address, id)
  const assignment: Assignment = {
    address: engine.address,
    controlPlaneSecret: engine.controlPlaneSecret,
    projectId: id,
    ref,
    facts,
    claims,
    userId,
    sql,
    callers: connections * depth,
  }
  const scripts = stage.dataDir('scripts')
  const { address, postmaster, controlPlaneSecret } = engine
  const api = createLogins(address, keyring(controlPlaneSecret)).address(ref, 'api')
  const reference = (name: string, unit: string[], units = depth, clients = connections) => {
    const file = join(scripts, `${name}.sql`)
    const how = { file, unit, values, depth: units, clients, seconds: roundSeconds }
    return () => pgbench({ address: api, database: ref, postmaster }, how)
  }

  const references = {
    pipelined: reference('pipelined', [become, sql]),
    pipelinedWithReset: reference('pipelined-reset', ['reset all', becomeWithReset, sql]),
    // Every unit has its own Sync, and so its own transaction, as ours have.
    unitByUnit: reference('unit', ['reset all', becomeWithReset, sql], 1, connections * depth),
  }
  const generation = async () => {
    const worker = await startWorker(assignment)
    try {
      await ours(worker, engine)
      return await interleave(roundsEach, { ours: () => ours(worker, engine), ...references })
    } finally {
      worker.kill()
      await once(worker, 'exit')
    }
  }
  for (const run of Object.values(references)) await run()
  const samples = await generation()
  for (let count = 1; count < generations; count++)
    for (const [name, more] of Object.entries(await generation()))
      samples[name as keyof typeof samples].push(...more)

  const reportResult = (subject: string, against: Sample[], target?: { atLeast: number }) => {
    const throughput = compare(samples.ours, against, each => each['per_second']!)
    const cpu = compare(samples.ours, against, cpuOf)
    report({
      bench: 'as-caller',
      subject,
      ...(target && { target }),
      measured: throughput.ratio,
      unit: 'of its throughput',
      range: throughput.range,
      cpu_ratio: cpu.ratio,
      cpu_ratio_range: cpu.range,
      ours: cpu.measured,
      reference: cpu.reference,
      rounds: cpu.rounds,
      generations,
      round_seconds: roundSeconds,
    })
  }
  reportResult(
    `asCaller of ${sql} against pgbench, ${connections} x ${depth} in a pipeline`,
    samples.pipelined,
    {
      atLeast: 0.55,
    },
  )
  reportResult('the same when pgbench also resets the session', samples.pipelinedWithReset)
  reportResult(
    `the same when pgbench ends every unit with a Sync, ${connections * depth} connections`,
    samples.unitByUnit,
  )
})

async function startWorker(assignment: Assignment): Promise<ChildProcess> {
  const worker = fork(fileURLToPath(new URL('as-caller-worker.ts', import.meta.url)), {
    execArgv: process.argv.slice(2), // such as --cpu-prof
  })
  worker.send(assignment)
  await once(worker, 'message')
  return worker
}

async function ours(worker: ChildProcess, { postmaster }: StagedEngine): Promise<Sample> {
  const before = familyCpuMicros(postmaster)
  worker.send(roundSeconds * 1000)
  const [round] = (await once(worker, 'message')) as [Round]
  return {
    per_second: (round.calls / round.ms) * 1000,
    client_cpu_us: round.cpuMicros / round.calls,
    postgres_cpu_us: (familyCpuMicros(postmaster) - before) / round.calls,
    connections: round.connections,
  }
}
