// Measurements: CPU of processes from /proc, interleaved rounds, medians, and the line that reports a result.
import { readdirSync, readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const microsPerTick = 10_000 // USER_HZ is 100 wherever Linux shows clock ticks to users

interface Ticks {
  parent: number
  own: number
  /** The CPU ticks of ended children that were waited for. */
  reaped: number
}

function ticksOf(pid: number | 'self'): Ticks | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The fields after the name, which may contain spaces. The first is the state.
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [parent, user, system, reapedUser, reapedSystem] = [1, 11, 12, 13, 14].map(index => fields[index]!)
    return { parent: parent!, own: user! + system!, reaped: reapedUser! + reapedSystem! }
  } catch {
    return undefined
  }
}

/** CPU that a process has used so far, with all its threads. */
export const cpuMicros = (pid: number): number => (ticksOf(pid)?.own ?? 0) * microsPerTick

/** CPU of a process with all its children, ended or not: Postgres by the pid of its postmaster. */
export function familyCpuMicros(pid: number): number {
  for (;;) {
    const before = ticksOf(pid)
    const living = childrenOf(pid).map(child => ticksOf(child))
    const after = ticksOf(pid)
    if (!before || !after) return 0
    // A child reaped during the reading is counted twice or not at all, so read again.
    if (before.reaped !== after.reaped || living.includes(undefined)) continue
    const ofLiving = living.reduce((sum, child) => sum + child!.own + child!.reaped, 0)
    return (after.own + after.reaped + ofLiving) * microsPerTick
  }
}

/** CPU of this process and everything it has started. */
function ownCpuMicros(): number {
  const known = new Map(processes().map(pid => [pid, ticksOf(pid)]))
  const isOurs = (pid: number): boolean => {
    const parent = known.get(pid)?.parent
    return pid === process.pid || (parent !== undefined && parent > 1 && isOurs(parent))
  }
  const ours = [...known].filter(([pid]) => isOurs(pid))
  return ours.reduce((sum, [, ticks]) => sum + (ticks ? ticks.own + ticks.reaped : 0), 0) * microsPerTick
}

/** CPU of the whole machine, without interrupts and other guests of its host. */
function machineCpuMicros(): number {
  const [, user, nice, system] = readFileSync('/proc/stat', 'utf8').split(/\s+/, 4).map(Number)
  return (user! + nice! + system!) * microsPerTick
}

/** CPU of all ended children of this process, such as those of `spawnSync`. */
export const endedChildrenCpuMicros = (): number => ticksOf('self')!.reaped * microsPerTick

export function childrenOf(pid: number): number[] {
  return processes().filter(child => ticksOf(child)?.parent === pid)
}

const processes = (): number[] =>
  readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .map(Number)

export function residentMegabytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kilobytes) / 1024
}

/** Proportional memory (PSS) of a process and its children. */
export function familyProportionalMegabytes(pid: number): number {
  const kilobytes = [pid, ...childrenOf(pid)].map(each => {
    try {
      return Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${each}/smaps_rollup`, 'utf8'))?.[1])
    } catch {
      return 0
    }
  })
  return kilobytes.reduce((sum, each) => sum + each, 0) / 1024
}

export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export type Sample = Record<string, number>

/**
 * Runs every contender once per round, in alternating order, so that the order favours no contender. Before each run it waits
 * up to `maxWaitMs` until other users of the machine are idle.
 */
export async function interleave<Name extends string>(
  rounds: number,
  contenders: Record<Name, () => Promise<Sample>>,
  maxWaitMs = 0,
): Promise<Record<Name, Sample[]>> {
  const names = Object.keys(contenders) as Name[]
  const samples = Object.fromEntries(names.map(name => [name, []])) as unknown as Record<Name, Sample[]>
  for (let round = 0; round < rounds; round++)
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      await waitUntilIdle(maxWaitMs)
      samples[name].push(await withDisturbance(contenders[name]))
    }
  return samples
}

const checkIntervalMs = 300
const idleCores = 0.15

/** Waits until the machine is nearly idle. */
async function waitUntilIdle(maxWaitMs: number): Promise<void> {
  const until = performance.now() + maxWaitMs
  while (performance.now() < until) {
    const before = machineCpuMicros()
    await sleep(checkIntervalMs)
    if (machineCpuMicros() - before < idleCores * checkIntervalMs * 1000) return
  }
}

const disturbanceField = 'cores_used_by_others'

/** Adds the CPU share of other processes meanwhile. */
async function withDisturbance(work: () => Promise<Sample>): Promise<Sample> {
  const before = { machine: machineCpuMicros(), own: ownCpuMicros(), at: performance.now() }
  const sample = await work()
  const otherProcesses = machineCpuMicros() - before.machine - (ownCpuMicros() - before.own)
  return {
    ...sample,
    [disturbanceField]: Math.max(0, otherProcesses / 1000 / (performance.now() - before.at)),
  }
}

/** The median of each field. */
export const medians = (samples: readonly Sample[]): Sample =>
  Object.fromEntries(
    Object.keys(samples[0] ?? {}).map(field => [field, rounded(median(samples.map(each => each[field]!)))]),
  )

export interface Comparison {
  /** The median of measured divided by reference, over the selected rounds. */
  ratio: number
  range: [number, number]
  measured: Sample
  reference: Sample
  rounds: { taken: number; of: number }
}

/**
 * Compares within a round, because a disturbance affects both sides. Uses the half of the rounds in which others used
 * the machine least, selected before looking at the results.
 */
export function compare(
  measured: readonly Sample[],
  reference: readonly Sample[],
  of: (sample: Sample) => number,
): Comparison {
  const all = measured.map((sample, round) => ({ sample, referenceSample: reference[round]! }))
  const leastDisturbed = all
    .toSorted((a, b) => disturbance(a) - disturbance(b))
    .slice(0, Math.max(3, Math.ceil(all.length / 2)))
  const ratios = leastDisturbed.map(({ sample, referenceSample }) => of(sample) / of(referenceSample))
  return {
    ratio: rounded(median(ratios)),
    range: [rounded(Math.min(...ratios)), rounded(Math.max(...ratios))],
    measured: medians(leastDisturbed.map(({ sample }) => sample)),
    reference: medians(leastDisturbed.map(({ referenceSample }) => referenceSample)),
    rounds: { taken: leastDisturbed.length, of: all.length },
  }
}

const disturbance = ({ sample, referenceSample }: { sample: Sample; referenceSample: Sample }) =>
  (sample[disturbanceField] ?? 0) + (referenceSample[disturbanceField] ?? 0)

export interface Result {
  bench: string
  subject: string
  /** The upper or lower bound of `measured`; absent for a number that has no target. */
  target?: { atMost: number } | { atLeast: number }
  measured: number
  unit: string
  [detail: string]: unknown
}

/** One JSON line to stdout, one sentence to stderr. */
export function report({ bench, subject, target, measured, unit, ...details }: Result): void {
  const value = rounded(measured)
  const isMet =
    target === undefined ? undefined : 'atMost' in target ? value <= target.atMost : value >= target.atLeast
  const verdict = isMet === undefined ? 'no target' : isMet ? 'met' : 'missed'
  const load = rounded(loadavg()[0]!)
  const line = { bench, subject, target, measured: value, unit, verdict, ...details, load }
  process.stdout.write(`${JSON.stringify(line)}\n`)
  const bound =
    target === undefined
      ? ''
      : 'atMost' in target
        ? ` (target: at most ${target.atMost})`
        : ` (target: at least ${target.atLeast})`
  process.stderr.write(`${bench}: ${subject}: ${value} ${unit}${bound} ${verdict}\n`)
}

export const rounded = (number: number): number => Number(number.toPrecision(4))
