// The reference of everything that queries Postgres: pgbench with prepared statements in pipeline mode, as the
// project's own login over the same socket and with the session settings the platform starts with.
import { globSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerAddress } from '../apps/server/src/kernel/postgres/server-address.ts'
import { familyCpuMicros, type Sample } from './measure.ts'
import { runToEnd } from './run-to-end.ts'

const sessionSettings = {
  search_path: 'public,extensions,pg_temp',
  // pgbench prepares its statements before it runs the one that becomes anon, and the login itself may see nothing.
  role: 'anon',
  local_preload_libraries: '',
  DateStyle: 'ISO,MDY',
  TimeZone: 'UTC',
  idle_in_transaction_session_timeout: '10s',
}

export interface Reference {
  /** The directory of the script. */
  file: string
  /** The statements of one operation; `:name` is a value, `:id` a random number for every operation. */
  unit: readonly string[]
  values: Readonly<Record<string, string>>
  /** `:id` is from 1 to this. */
  ids?: number
  /** Operations in one pipeline, and so in one transaction: pgbench sends its Sync at the end. */
  depth: number
  clients: number
  seconds: number
  /** Session settings that differ from a caller's. */
  settings?: Readonly<Record<string, string>>
}

interface Server {
  address: ServerAddress
  database: string
  postmaster: number
}

export function pgbench(server: Server, { unit, ids, depth, ...options }: Reference): Promise<Sample> {
  const operations = Array.from({ length: depth }, (_, index) => index)
  const randomIds = ids === undefined ? [] : operations.map(index => `\\set id${index} random(1, ${ids})`)
  const statements = operations.flatMap(index =>
    unit.map(each => `${each.replace(/(?<!:):id\b/g, `:id${index}`)};`),
  )
  const script = [...randomIds, '\\startpipeline', ...statements, '\\endpipeline', ''].join('\n')
  return pgbenchScript(server, { ...options, script, perRun: depth })
}

export interface ScriptedReference extends Pick<Reference, 'file' | 'clients' | 'seconds' | 'settings'> {
  script: string
  /** Operations in one run of the script. */
  perRun: number
  values?: Readonly<Record<string, string>>
}

export async function pgbenchScript(
  server: Server,
  { file, script, perRun, values = {}, clients, seconds, settings: other = {} }: ScriptedReference,
): Promise<Sample> {
  writeFileSync(file, script)

  const { host, port, user, password } = server.address
  const settings = Object.entries({ ...sessionSettings, ...other }).map(
    ([name, value]) => `-c ${name}=${value}`,
  )
  const before = familyCpuMicros(server.postmaster)
  const { stdout, stderr, cpuMicros } = await runToEnd(
    globSync('/usr/lib/postgresql/*/bin/pgbench').at(-1) ?? 'pgbench',
    [
      ...['--no-vacuum', '--protocol=prepared', `--file=${file}`, `--time=${seconds}`, '--random-seed=1'],
      ...[`--client=${clients}`, '--jobs=1', `--host=${host}`, `--port=${port}`, `--username=${user}`],
      ...Object.entries(values).map(([name, value]) => `--define=${name}=${value}`),
      server.database,
    ],
    { PGPASSWORD: password, PGOPTIONS: settings.join(' ') },
  )
  const transactions = Number(/transactions actually processed: (\d+)/.exec(stdout)?.[1])
  const rate = Number(/tps = ([\d.]+)/.exec(stdout)?.[1])
  if (!(transactions > 0)) throw new Error(`pgbench failed: ${stderr}${stdout}`)
  await sleep(100) // its backends are still ending
  return {
    per_second: rate * perRun,
    client_cpu_us: cpuMicros / (transactions * perRun),
    postgres_cpu_us: (familyCpuMicros(server.postmaster) - before) / (transactions * perRun),
    connections: clients,
  }
}
