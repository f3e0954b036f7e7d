// Memory (RSS) of the platform process for ten thousand idle sockets, only connected, and joined to a channel each.
// Options: --sockets, --settle (idle seconds before each measurement).
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { cpuMicros, report, residentMegabytes, rounded } from './measure.ts'
import { startReaders } from './realtime-load.ts'
import { joinOf, stageRealtime } from './realtime-stage.ts'
import { onStage } from './stage.ts'

const { values: given } = parseArgs({
  options: { sockets: { type: 'string', default: '10000' }, settle: { type: 'string', default: '30' } },
})
const count = Number(given.sockets)
const settleMs = Number(given.settle) * 1000
const atMostKilobytes = 20
const perSecond = 400
/** Sockets that are open and joined before the first measurement: they fill the heap that the start has left free. */
const warmUpSockets = 2000
/** One address has about 28,000 ports for outgoing connections. */
const perAddress = 20_000

await onStage(async stage => {
  const { platform, reader, users, keys } = await stageRealtime(stage)
  const readers = startReaders()
  // Most clients are signed in, some are anonymous.
  const all = Array.from({ length: warmUpSockets + count }, (_, index) => ({
    ...reader(index % 4 === 0 ? keys.anon : users[index % users.length]!.token),
    from: `127.0.0.${1 + Math.floor(index / perAddress)}`,
  }))
  const joins = all.map((_, index) => joinOf({ topic: `room-${index}` }))
  const join = (from: number, to: number) =>
    readers.call('join', { joins: joins.slice(from, to), from, perSecond })
  const open = (from: number, to: number) =>
    readers.call('open', { readers: all.slice(from, to), atOnce: 50, perSecond })

  const empty = residentMegabytes(platform.pid)
  await open(0, warmUpSockets)
  await join(0, warmUpSockets)
  const baseline = await measureSettled()
  await open(warmUpSockets, all.length)
  await reportResult('connected, without a channel')
  await join(warmUpSockets, all.length)
  const joined = await reportResult('each joined to a channel')
  const { closed } = await readers.call('counts', undefined)
  if (closed.length > 0) throw new Error(`${closed.length} sockets were closed: ${closed[0]}`)

  const before = cpuMicros(platform.pid)
  await sleep(settleMs)
  report({
    bench: 'realtime-idle',
    subject: `CPU of ${all.length} idle sockets that send heartbeats`,
    measured: (cpuMicros(platform.pid) - before) / (settleMs * 1000),
    unit: 'of a core',
  })
  await readers.call('close', undefined)
  const left = await measureSettled()
  report({
    bench: 'realtime-idle',
    subject: `RSS kept after all ${all.length} sockets are closed`,
    measured: left - empty,
    unit: 'MB',
    with_sockets: rounded(joined - empty),
  })
  await readers.end()
  await platform.stop()

  async function measureSettled(): Promise<number> {
    await sleep(settleMs)
    return residentMegabytes(platform.pid)
  }

  async function reportResult(state: string): Promise<number> {
    const rightAfter = residentMegabytes(platform.pid)
    const resident = await measureSettled()
    report({
      bench: 'realtime-idle',
      subject: `${count} idle sockets, ${state}`,
      target: { atMost: atMostKilobytes },
      measured: ((resident - baseline) * 1024) / count,
      unit: 'kB of RSS each',
      right_after: rounded(((rightAfter - baseline) * 1024) / count),
      rss_mb: { started: rounded(empty), before: rounded(baseline), with_sockets: rounded(resident) },
      settle_seconds: settleMs / 1000,
    })
    return resident
  }
})
