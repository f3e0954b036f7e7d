// The largest and strangest body, query, headers and SQL that every route accepts, while a probe in a process of its own
// reads a row of another project every 20 ms. Reports each request that made a read wait 50 ms longer than a harmless
// control of the same size does, and beside it how long the event loop was held, on the clock and in CPU time: a read also
// waits for the CPU, which Postgres, the attacker and other machines use as well. Options: --only=<text in the name>,
// --rounds, --own or --generic for one half.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Attacked, type Case, genericCases, ownCases } from './attack-cases.ts'
import type { ProbeTarget, Window } from './attack-probe.ts'
import { send } from './attack-send.ts'
import { loopWatch } from './loop-watch.ts'
import { median, report, residentMegabytes, rounded } from './measure.ts'
import { engineIn, onStage, projectsAt, type StagedServer, startMain } from './stage.ts'

const { values: given } = parseArgs({
  options: {
    only: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    own: { type: 'boolean', default: false },
    generic: { type: 'boolean', default: false },
  },
})
const rounds = Number(given.rounds)
const mostMs = 50
/** Above it a case is measured again, `rounds` times: on a busy machine a single read is late now and then. */
const suspiciousMs = 20
const afterMs = 60
const unlimited = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
}

interface Measured {
  control: Window
  attack: Window
  /** How long the event loop was held at most during the attack. */
  loopMs: number
  /** Of that, by the CPU time of the thread: without what the machine gave to others. */
  loopCpuMs: number
  statuses: [number, number]
}

await onStage(async stage => {
  const dataDir = stage.dataDir('platform')
  const loop = loopWatch(join(dataDir, 'loop-delay.json'))
  const platform = await startMain(stage, { ...unlimited, ...loop.env }, dataDir, loop.nodeOptions)
  const { adminToken } = engineIn(dataDir)
  const attacked = await prepare(platform, adminToken)
  const probe = await startProbe(await prepareVictim(platform, adminToken))
  const all = [
    ...(given.generic ? [] : ownCases(attacked)),
    ...(given.own ? [] : genericCases(attacked)),
  ].filter(({ name }) => name.includes(given.only ?? ''))

  async function measure({ control, attack }: Case): Promise<Measured> {
    const [controlStatus, ofControl] = await watched(probe, control)
    await loop.read(platform)
    const [attackStatus, ofAttack] = await watched(probe, attack)
    const { max_ms: loopMs, max_cpu_ms: loopCpuMs } = await loop.read(platform)
    return {
      control: ofControl,
      attack: ofAttack,
      loopMs,
      loopCpuMs,
      statuses: [controlStatus, attackStatus],
    }
  }

  const late: string[] = []
  const holds: number[] = []
  const cpuHolds: number[] = []
  const excesses: number[] = []
  for (const each of all) {
    const first = await measure(each)
    const again = excessOf(first) > suspiciousMs || first.attack.failed > 0
    const measured = [first]
    if (again) for (let round = 1; round < rounds; round++) measured.push(await measure(each))
    const excessMs = rounded(median(measured.map(excessOf)))
    excesses.push(excessMs)
    holds.push(median(measured.map(({ loopMs }) => loopMs)))
    cpuHolds.push(median(measured.map(({ loopCpuMs }) => loopCpuMs)))
    if (excessMs > mostMs || measured.some(({ attack }) => attack.failed > 0)) {
      late.push(each.name)
      report({
        bench: 'attacks',
        subject: each.name,
        target: { atMost: mostMs },
        measured: excessMs,
        unit: 'ms longer than the control',
        ...described(measured),
      })
    }
  }
  report({
    bench: 'attacks',
    subject: `longest wait beyond the control, of ${all.length} cases`,
    target: { atMost: mostMs },
    measured: Math.max(...excesses),
    unit: 'ms',
    late,
    loop_held_ms: rounded(Math.max(...holds)),
    loop_cpu_ms: rounded(Math.max(...cpuHolds)),
    rss_mb: rounded(residentMegabytes(platform.pid)),
  })
  const ended = once(probe, 'exit')
  probe.kill()
  await ended
})

function excessOf({ control, attack }: Measured): number {
  return attack.maxMs - control.maxMs
}

function described(measured: readonly Measured[]) {
  return {
    attack_ms: rounded(median(measured.map(({ attack }) => attack.maxMs))),
    control_ms: rounded(median(measured.map(({ control }) => control.maxMs))),
    loop_held_ms: rounded(median(measured.map(({ loopMs }) => loopMs))),
    loop_cpu_ms: rounded(median(measured.map(({ loopCpuMs }) => loopCpuMs))),
    failed_reads: Math.max(...measured.map(({ attack }) => attack.failed)),
    statuses: measured.at(-1)!.statuses,
    rounds: measured.length,
  }
}

async function watched(probe: ChildProcess, work: () => Promise<number>): Promise<[number, Window]> {
  await sleep(afterMs)
  probe.send({})
  const status = await work()
  await sleep(afterMs)
  probe.send({ end: true })
  const [window] = (await once(probe, 'message')) as [Window]
  return [status, window]
}

async function startProbe(target: ProbeTarget): Promise<ChildProcess> {
  const probe = fork(fileURLToPath(new URL('attack-probe.ts', import.meta.url)), { execArgv: [] })
  probe.send({ target })
  await sleep(2000)
  return probe
}

async function prepareVictim({ url }: StagedServer, adminToken: string): Promise<ProbeTarget> {
  const victim = await projectsAt(url, adminToken).create({ body: { name: 'victim' } })
  await sqlIn(url, victim.id, victim.service_role_key, [
    'create table notes (id int primary key, body text)',
    'create policy everybody on notes for select using (true)',
    "insert into notes values (1, 'hello')",
  ])
  return { url: `${url}/v1/rest/${victim.id}/notes?id=eq.1`, headers: { apikey: victim.anon_key } }
}

async function prepare({ url }: StagedServer, adminToken: string): Promise<Attacked> {
  const project = await projectsAt(url, adminToken).create({ body: { name: 'attacker' } })
  await sqlIn(url, project.id, project.service_role_key, [
    'create table items (id bigint generated by default as identity primary key, name text)',
    'create policy everybody on items using (true) with check (true)',
    'create function echo(value json) returns json language sql immutable as $$ select value $$',
    "create function stuck() returns void language plpgsql as $$ begin execute repeat('/*', 400000); end $$",
    "select pgmq.create('mine')",
  ])
  const bucket = {
    method: 'POST',
    path: `/v1/storage/${project.id}/bucket`,
    headers: { apikey: project.service_role_key, 'content-type': 'application/json' },
    body: Buffer.from('{"id":"mine"}'),
  }
  await send(url, bucket)
  return {
    url,
    projectId: project.id,
    anonKey: project.anon_key,
    serviceKey: project.service_role_key,
    adminToken,
  }
}

async function sqlIn(url: string, id: string, key: string, statements: string[]): Promise<void> {
  const status = await send(url, {
    method: 'POST',
    path: `/v1/rest/${id}/rpc/exec_sql`,
    headers: { apikey: key, 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ sql: statements.join(';') })),
  })
  if (status !== 200) throw new Error(`exec_sql answered ${status}`)
}
