// What a worker uses of the machine, and when that is too much. CPU time is a budget: calls and time add to it, and the
// worker spends it. So a worker may be busy as long as it is called, but cannot spin.
import { opendir, readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'

export interface Usage {
  cpuMs: number
  memoryMb: number
}

export type Excess = 'memory' | 'cpu' | 'disk'

const pageMb = 4096 / 1024 / 1024
/** The clock of /proc on all Linux systems of today. */
const msPerTick = 10

/** Undefined if the process has ended, or on systems without /proc. */
export async function usageOf(pid: number): Promise<Usage | undefined> {
  try {
    const [stats, memory] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'latin1'),
      readFile(`/proc/${pid}/statm`, 'latin1'),
    ])
    // The name of the program, in parentheses, may contain spaces.
    const fields = stats.slice(stats.lastIndexOf(')') + 2).split(' ')
    return {
      cpuMs: (Number(fields[11]) + Number(fields[12])) * msPerTick,
      memoryMb: Number(memory.split(' ')[1]) * pageMb,
    }
  } catch {
    return
  }
}

/** In milliseconds of CPU time. */
const cpu = { atStart: 2000, perCall: 2000, perSecond: 100, most: 10_000 }
/** In a second of time, calls add at most this. JavaScript runs on one core, and its runtime needs some more. */
const mostOfCalls = 1500
/** Memory of Deno itself. */
const ownMemoryMb = 80

export class Budget {
  readonly memoryMb: number
  #cpuMs = cpu.atStart
  #spentMs = 0
  #addedAt: number
  /** What calls may still add. */
  #openToCalls = cpu.most

  constructor(memoryMb: number, now: number) {
    this.memoryMb = memoryMb
    this.#addedAt = now
  }

  addCall(): void {
    const added = Math.min(cpu.perCall, this.#openToCalls)
    this.#openToCalls -= added
    this.#cpuMs = Math.min(cpu.most, this.#cpuMs + added)
  }

  /** Returns what the worker has used too much of. */
  spend(usage: Usage, now: number): Excess | undefined {
    const seconds = (now - this.#addedAt) / 1000
    const earned = seconds * cpu.perSecond
    this.#openToCalls = Math.min(cpu.most, this.#openToCalls + seconds * mostOfCalls)
    this.#addedAt = now
    this.#cpuMs = Math.min(cpu.most, this.#cpuMs + earned) - (usage.cpuMs - this.#spentMs)
    this.#spentMs = usage.cpuMs
    if (this.#cpuMs < 0) return 'cpu'
    return usage.memoryMb > this.memoryMb + ownMemoryMb ? 'memory' : undefined
  }
}

const disk = { bytes: 256 * 1024 * 1024, entries: 10_000 }

/** Whether a directory has more bytes or entries than a worker may write. */
export const isOverfull = (root: string): Promise<boolean> => holdsMore(root, disk)

/** Whether a worker has written more to its directory than it may, with the files that it has deleted and keeps open. */
export const writesTooMuch = async (root: string, pid: number): Promise<boolean> =>
  holdsMore(root, { ...disk, bytes: disk.bytes - (await deletedBytes(pid)) })

async function deletedBytes(pid: number): Promise<number> {
  const directory = `/proc/${pid}/fd`
  let bytes = 0
  for (const name of await readdir(directory).catch(() => [])) {
    const file = await stat(join(directory, name)).catch(() => undefined)
    if (file?.isFile() && file.nlink === 0) bytes += file.size
  }
  return bytes
}

export async function holdsMore(root: string, most: { bytes: number; entries: number }): Promise<boolean> {
  if (most.bytes < 0) return true
  const left = [root]
  let [bytes, entries] = [0, 0]
  for (let directory = left.pop(); directory !== undefined; directory = left.pop()) {
    const opened = await opendir(directory).catch(() => undefined)
    if (!opened) continue
    for await (const entry of opened) {
      const path = join(directory, entry.name)
      if (entry.isDirectory()) left.push(path)
      else bytes += (await stat(path).catch(() => undefined))?.size ?? 0
      if (++entries > most.entries || bytes > most.bytes) return true
    }
  }
  return false
}
