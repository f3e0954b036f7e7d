// Disk space for recoveries that run at once. Each needs a second server and a copy, which it fills slowly, so what the others
// still need is not free. Only one platform of a cluster recovers, therefore the numbers are in memory.
import { setTimeout as sleep } from 'node:timers/promises'
import { freeBytes } from '#src/kernel/disk-space.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Place } from '#src/kernel/postgres/engine/place.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { whileDiskHasSpace } from '#src/tenancy/task-space.ts'

export interface SpaceClaim {
  /** The rest is on the disk, or is not needed any more. */
  reduceTo(bytes: number): void
  release(): void
}

export interface SpaceClaims {
  /** Waits while other recoveries need the space. Throws if there is too little without them. */
  claim(bytes: number, signal: AbortSignal): Promise<SpaceClaim>
}

const lookMs = 1000

/** The function returns the free bytes beyond the reserve. */
export function createSpaceClaims(free: () => Promise<number>, everyMs = lookMs): SpaceClaims {
  const claimed = new Map<SpaceClaim, number>()
  return {
    async claim(bytes, signal) {
      for (;;) {
        const available = await free()
        const others = claimed.values().reduce((sum, each) => sum + each, 0)
        if (bytes + others <= available) break
        if (claimed.size === 0) throw tooLittle(bytes, available, ' beyond PLATFORM_DISK_RESERVE_MB')
        await sleep(everyMs, undefined, { signal })
      }
      const claim: SpaceClaim = {
        reduceTo: left => void claimed.set(claim, left),
        release: () => void claimed.delete(claim),
      }
      claimed.set(claim, bytes)
      return claim
    },
  }
}

/** For a cluster beside the one that is stopped, so that nobody else takes space. */
export async function checkSpace({ home }: Place, needed: number): Promise<void> {
  const free = await freeBytes(home)
  if (free < needed) throw tooLittle(needed, free, '')
}

/** Aborts the work when the disk reserve is reached, and says so to the operator. */
export async function aboveReserve<T>(
  spaceCheck: SpaceCheck,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await whileDiskHasSpace(spaceCheck, signal, work)
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'disk_reserve_reached') throw error
    throw new Error(
      'the disk has less than PLATFORM_DISK_RESERVE_MB left; make room or enlarge it, and recover again',
      { cause: error },
    )
  }
}

const tooLittle = (needed: number, free: number, beyond: string) =>
  new Error(
    `there is too little space: ${megabytes(needed)} MB are needed, and ${megabytes(free)} MB are free${beyond}`,
  )

const megabytes = (bytes: number) => Math.ceil(bytes / 1_000_000)
