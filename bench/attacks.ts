// Sends every route the largest and most unusual body, query, headers and SQL it accepts, while a probe in a separate process
// reads a row of another project every 20 ms. Reports each request that makes a read wait 50 ms longer than a harmless
// control of the same size, and how long the event loop was blocked, in wall time and CPU time. A read also waits for the
// CPU, which Postgres, the attacker and other machines use as well. Options: --only=<text in the name>,
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
const maxExcessMs = 50
/** Above it a case is measured again, `rounds` times, because on a busy machine a single read is sometimes late. */
const suspiciousMs = 20
const settleMs = 60
const unlimited = {
  PLATFORM_RATE_LIMIT_ANON: '0',
  PLATFORM_RATE_LIMIT_AUTHENTICATED: '0',
  PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
  // The webhooks of the attacker have a target on this machine.
  PLATFORM_OUTBOUND_ALLOW: '127.0.0.1',
}

interface Measured {
  control: Window
  attack: Window
  /** The longest time for which the attack blocked the event loop. */
  loopMs: number
  /** The same in CPU time of the thread, without the time of other processes. */
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
  if (all.length === 0) throw new Error(`no case has "${given.only}" in its name`)

  async function measure({ prepare, control, attack }: Case): Promise<Measured> {
    await prepare?.()
    const [controlStatus, ofControl] = await measureReads(probe, control)
    await loop.read(platform)
    const [attackStatus, ofAttack] = await measureReads(probe, attack)
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
  const serverErrors: string[] = []
  const blockedMs: number[] = []
  const blockedCpuMs: number[] = []
  const excesses: number[] = []
  for (const each of all) {
    const first = await measure(each)
    const isSuspicious = excessMsOf(first) > suspiciousMs || first.attack.failed > 0
    const measured = [first]
    if (isSuspicious) for (let round = 1; round < rounds; round++) measured.push(await measure(each))
    const excessMs = rounded(median(measured.map(excessMsOf)))
    excesses.push(excessMs)
    if (measured.some(({ statuses }) => statuses[1] >= 500)) serverErrors.push(each.name)
    blockedMs.push(median(measured.map(({ loopMs }) => loopMs)))
    blockedCpuMs.push(median(measured.map(({ loopCpuMs }) => loopCpuMs)))
    if (excessMs > maxExcessMs || measured.some(({ attack }) => attack.failed > 0)) {
      late.push(each.name)
      report({
        bench: 'attacks',
        subject: each.name,
        target: { atMost: maxExcessMs },
        measured: excessMs,
        unit: 'ms longer than the control',
        ...describe(measured),
      })
    }
  }
  report({
    bench: 'attacks',
    subject: `longest extra wait against the control, of ${all.length} cases`,
    target: { atMost: maxExcessMs },
    measured: Math.max(...excesses),
    unit: 'ms',
    late,
    server_errors: serverErrors,
    loop_blocked_ms: rounded(Math.max(...blockedMs)),
    loop_cpu_ms: rounded(Math.max(...blockedCpuMs)),
    rss_mb: rounded(residentMegabytes(platform.pid)),
  })
  const exited = once(probe, 'exit')
  probe.kill()
  await exited
})

function excessMsOf({ control, attack }: Measured): number {
  return attack.maxMs - control.maxMs
}

function describe(measured: readonly Measured[]) {
  return {
    attack_ms: rounded(median(measured.map(({ attack }) => attack.maxMs))),
    control_ms: rounded(median(measured.map(({ control }) => control.maxMs))),
    loop_blocked_ms: rounded(median(measured.map(({ loopMs }) => loopMs))),
    loop_cpu_ms: rounded(median(measured.map(({ loopCpuMs }) => loopCpuMs))),
    failed_reads: Math.max(...measured.map(({ attack }) => attack.failed)),
    statuses: measured.at(-1)!.statuses,
    rounds: measured.length,
  }
}

async function measureReads(probe: ChildProcess, work: () => Promise<number>): Promise<[number, Window]> {
  await sleep(settleMs)
  probe.send({})
  const status = await work()
  await sleep(settleMs)
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
  await runSql(url, victim.id, victim.service_role_key, [
    'create table notes (id int primary key, body text)',
    'create policy read_all on notes for select using (true)',
    "insert into notes values (1, 'hello')",
  ])
  return { url: `${url}/v1/rest/${victim.id}/notes?id=eq.1`, headers: { apikey: victim.anon_key } }
}

async function prepare({ url }: StagedServer, adminToken: string): Promise<Attacked> {
  const project = await projectsAt(url, adminToken).create({ body: { name: 'attacker' } })
  await runSql(url, project.id, project.service_role_key, [
    'create table items (id bigint generated by default as identity primary key, name text)',
    'create policy allow_all on items using (true) with check (true)',
    'create function echo(value json) returns json language sql immutable as $$ select value $$',
    "create function stuck() returns void language plpgsql as $$ begin execute repeat('/*', 400000); end $$",
    "select pgmq.create('mine')",
    ...manyOverloads(),
    'create function total(variadic v int[]) returns int language sql immutable as $$ select cardinality(v) $$',
    'create domain "text/html" as text',
    `create function page() returns "text/html" language sql immutable as $$ select repeat('<p>', 3000000) $$`,
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

/** A thousand functions of one name, with ninety parameters each. */
function manyOverloads(): string[] {
  return Array.from({ length: 1000 }, (_, index) => {
    const parameters = Array.from(
      { length: 90 },
      (_, at) => `a${at + 1} ${(index >> at) & 1 ? 'int' : 'text'} default null`,
    )
    return `create function many(${parameters.join()}) returns int language sql as $$ select 1 $$`
  })
}

async function runSql(url: string, id: string, key: string, statements: string[]): Promise<void> {
  const status = await send(url, {
    method: 'POST',
    path: `/v1/rest/${id}/rpc/exec_sql`,
    headers: { apikey: key, 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify({ sql: statements.join(';') })),
  })
  if (status !== 200) throw new Error(`exec_sql answered ${status}`)
}
