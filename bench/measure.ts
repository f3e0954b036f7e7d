// Numbers: CPU of processes out of /proc, interleaved rounds, medians, and the line that reports a result.
import { readdirSync, readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const microsPerTick = 10_000 // USER_HZ is 100 wherever Linux shows clock ticks to users

interface Ticks {
  parent: number
  own: number
  /** Of children that have ended and been waited for. */
  reaped: number
}

function ticksOf(pid: number | 'self'): Ticks | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The fields after the name, which may itself hold spaces: state is the first of them.
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

/** CPU a process has used so far, all its threads together. */
export const cpuMicros = (pid: number): number => (ticksOf(pid)?.own ?? 0) * microsPerTick

/** CPU of a process with all its children, ended or not: Postgres by the pid of its postmaster. */
export function familyCpuMicros(pid: number): number {
  for (;;) {
    const before = ticksOf(pid)
    const living = childrenOf(pid).map(child => ticksOf(child))
    const after = ticksOf(pid)
    if (!before || !after) return 0
    // A child reaped while we looked is counted twice or not at all: look again.
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

/** CPU of the whole machine, without what interrupts and other guests of its host take. */
function machineCpuMicros(): number {
  const [, user, nice, system] = readFileSync('/proc/stat', 'utf8').split(/\s+/, 4).map(Number)
  return (user! + nice! + system!) * microsPerTick
}

/** CPU of all children of this process that have ended: what `spawnSync` of something cost. */
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

/** Memory with what is shared divided among those who share it; of a process and its children. */
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
 * Every contender once per round, forwards and backwards in turn, so that no one has the better place. Where
 * others use the machine too, each turn waits for them for at most `patienceMs`.
 */
export async function interleave<Name extends string>(
  rounds: number,
  contenders: Record<Name, () => Promise<Sample>>,
  patienceMs = 0,
): Promise<Record<Name, Sample[]>> {
  const names = Object.keys(contenders) as Name[]
  const samples = Object.fromEntries(names.map(name => [name, []])) as unknown as Record<Name, Sample[]>
  for (let round = 0; round < rounds; round++)
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      await calm(patienceMs)
      samples[name].push(await watched(contenders[name]))
    }
  return samples
}

const glanceMs = 300
const calmCores = 0.15

/** Until hardly anybody uses the machine. */
async function calm(patienceMs: number): Promise<void> {
  const until = performance.now() + patienceMs
  while (performance.now() < until) {
    const before = machineCpuMicros()
    await sleep(glanceMs)
    if (machineCpuMicros() - before < calmCores * glanceMs * 1000) return
  }
}

const others = 'cores_used_by_others'

/** Adds how much of the machine others had meanwhile. */
async function watched(work: () => Promise<Sample>): Promise<Sample> {
  const before = { machine: machineCpuMicros(), own: ownCpuMicros(), at: performance.now() }
  const sample = await work()
  const foreign = machineCpuMicros() - before.machine - (ownCpuMicros() - before.own)
  return { ...sample, [others]: Math.max(0, foreign / 1000 / (performance.now() - before.at)) }
}

/** Field by field. */
export const medians = (samples: readonly Sample[]): Sample =>
  Object.fromEntries(
    Object.keys(samples[0] ?? {}).map(field => [field, rounded(median(samples.map(each => each[field]!)))]),
  )

export interface Comparison {
  /** The median, over the rounds looked at, of measured divided by reference. */
  ratio: number
  range: [number, number]
  measured: Sample
  reference: Sample
  rounds: { taken: number; of: number }
}

/**
 * Round by round, since what disturbs a round disturbs both sides of it; of all rounds the half in which others
 * used the machine least, chosen before looking at what was measured.
 */
export function compare(
  measured: readonly Sample[],
  reference: readonly Sample[],
  of: (sample: Sample) => number,
): Comparison {
  const all = measured.map((sample, round) => ({ sample, beside: reference[round]! }))
  const calmest = all
    .toSorted((a, b) => disturbance(a) - disturbance(b))
    .slice(0, Math.max(3, Math.ceil(all.length / 2)))
  const ratios = calmest.map(({ sample, beside }) => of(sample) / of(beside))
  return {
    ratio: rounded(median(ratios)),
    range: [rounded(Math.min(...ratios)), rounded(Math.max(...ratios))],
    measured: medians(calmest.map(({ sample }) => sample)),
    reference: medians(calmest.map(({ beside }) => beside)),
    rounds: { taken: calmest.length, of: all.length },
  }
}

const disturbance = ({ sample, beside }: { sample: Sample; beside: Sample }) =>
  (sample[others] ?? 0) + (beside[others] ?? 0)

export interface Result {
  bench: string
  subject: string
  /** Bounds `measured` from above or from below; absent for a figure that is only told. */
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
  const verdict = isMet === undefined ? 'told' : isMet ? 'met' : 'missed'
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
