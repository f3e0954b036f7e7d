// What ten thousand idle sockets cost the platform process, connected only and joined to a channel each; by its RSS.
// Options: --sockets, --settle (seconds of idling before each look).
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
/** Open and joined before the first look, besides those that are counted: they fill what the start has left free. */
const firstOnes = 2000
/** One address has ports for about 28,000. */
const perAddress = 20_000

await onStage(async stage => {
  const { platform, reader, users, keys } = await stageRealtime(stage)
  const readers = startReaders()
  // As in life: most are somebody, some are nobody.
  const all = Array.from({ length: firstOnes + count }, (_, index) => ({
    ...reader(index % 4 === 0 ? keys.anon : users[index % users.length]!.token),
    from: `127.0.0.${1 + Math.floor(index / perAddress)}`,
  }))
  const joins = all.map((_, index) => joinOf({ topic: `room-${index}` }))
  const join = (from: number, to: number) =>
    readers.tell('join', { joins: joins.slice(from, to), from, perSecond })
  const open = (from: number, to: number) =>
    readers.tell('open', { readers: all.slice(from, to), atOnce: 50, perSecond })

  const empty = residentMegabytes(platform.pid)
  await open(0, firstOnes)
  await join(0, firstOnes)
  const atFirst = await settledAt()
  await open(firstOnes, all.length)
  await tell('open and joined to nothing')
  await join(firstOnes, all.length)
  const joined = await tell('joined to a channel each')
  const { closed } = await readers.tell('taken', undefined)
  if (closed.length > 0) throw new Error(`${closed.length} sockets were closed: ${closed[0]}`)

  const before = cpuMicros(platform.pid)
  await sleep(settleMs)
  report({
    bench: 'realtime-idle',
    subject: `CPU of ${all.length} idle sockets that send heartbeats`,
    measured: (cpuMicros(platform.pid) - before) / (settleMs * 1000),
    unit: 'of a core',
  })
  await readers.tell('close', undefined)
  const left = await settledAt()
  report({
    bench: 'realtime-idle',
    subject: `RSS kept after all ${all.length} sockets are gone`,
    measured: left - empty,
    unit: 'MB',
    with_them: rounded(joined - empty),
  })
  await readers.end()
  await platform.stop()

  async function settledAt(): Promise<number> {
    await sleep(settleMs)
    return residentMegabytes(platform.pid)
  }

  async function tell(state: string): Promise<number> {
    const atOnce = residentMegabytes(platform.pid)
    const resident = await settledAt()
    report({
      bench: 'realtime-idle',
      subject: `${count} idle sockets, ${state}`,
      target: { atMost: atMostKilobytes },
      measured: ((resident - atFirst) * 1024) / count,
      unit: 'kB of RSS each',
      at_once: rounded(((atOnce - atFirst) * 1024) / count),
      rss_mb: { started: rounded(empty), before: rounded(atFirst), with_them: rounded(resident) },
      settle_seconds: settleMs / 1000,
    })
    return resident
  }
})
