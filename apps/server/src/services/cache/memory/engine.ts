// The in-memory engine. Each project is bounded by its quota, and all projects by a common limit.
import { getHeapStatistics } from 'node:v8'
import type { CacheEntry } from '@plinth/contract/cache.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Answer, CacheEngine } from '../engine.ts'
import { createMatcher } from '../glob.ts'
import { createScanBudget } from '../scan-budget.ts'
import { checkAnswer } from '../too-large.ts'
import { createKeyspace, evictedAtOnce, type Keyspace } from './keyspace.ts'
import type { Ownership } from './ownership.ts'

const defaultMaxBytes = 64 * 1024 * 1024
/** Maximum bytes of all projects in this process. */
export const memoryForAll = Math.min(512 * 1024 * 1024, Math.floor(getHeapStatistics().heap_size_limit / 4))
/** Keys visited per turn of the event loop, and per page of a scan. */
const placesAtOnce = 2000
/** Bytes freed at once over the common limit, so that evictions do not run for every key. */
const relief = 256 * 1024

interface MemoryEngineDeps {
  ownership(clear: () => void): Ownership
  /** The common limit of all projects. */
  maxBytes: number
}

export function createMemoryEngine({ ownership: createOwnership, maxBytes }: MemoryEngineDeps): CacheEngine {
  const spaces = new Map<string, { space: Keyspace; tenant: Tenant }>()
  let used = 0
  const trimming = new Set<Keyspace>()
  let isRelieving = false
  const weigh = (bytes: number) => {
    used += bytes
  }
  const ownership = createOwnership(() => {
    spaces.clear()
    used = 0
  })

  function spaceOf(tenant: Tenant): Keyspace {
    const known = spaces.get(tenant.id)
    if (known?.tenant === tenant) return known.space
    const space = known?.space ?? createKeyspace(weigh)
    space.maxBytes = Math.min(tenant.quotas.max_cache_bytes ?? defaultMaxBytes, maxBytes)
    spaces.set(tenant.id, { space, tenant })
    return space
  }

  /** Removes the cache of a project and returns it. */
  function drop(projectId: string): Keyspace | undefined {
    const space = spaces.get(projectId)?.space
    spaces.delete(projectId)
    used -= space?.bytes ?? 0
    return space
  }

  /** Evicts from the largest project first, so that no project loses keys to a larger one. */
  function* relieve(): Sliced<void> {
    while (used > maxBytes - relief && spaces.size > 0) {
      const [biggest, next] = twoBiggest(spaces.values())
      let evicted = 0
      while (used > maxBytes - relief && biggest.bytes >= next && evicted++ < evictedAtOnce) biggest.evict()
      yield
    }
  }

  function* trim(space: Keyspace): Sliced<void> {
    while (!space.trim(evictedAtOnce)) yield
  }

  /** One large value can evict 100,000 small ones, so eviction runs in slices. */
  function evictFor(space: Keyspace): void {
    if (!trimming.has(space) && !space.trim(0)) {
      trimming.add(space)
      void inSlices(trim(space)).then(() => trimming.delete(space))
    }
    if (used > maxBytes && !isRelieving) {
      isRelieving = true
      void inSlices(relieve()).then(() => {
        isRelieving = false
      })
    }
  }

  const using = <T>(tenant: Tenant, work: (space: Keyspace) => T): Answer<T> =>
    ownership.isOwner() ? work(spaceOf(tenant)) : ownership.acquire().then(() => work(spaceOf(tenant)))

  const writing = <T>(tenant: Tenant, work: (space: Keyspace) => T): Answer<T> =>
    using(tenant, space => {
      const result = work(space)
      evictFor(space)
      return result
    })

  /** Visits all keys, a few per turn of the event loop. */
  async function throughout(space: Keyspace, pattern: string, see: (key: string) => void): Promise<void> {
    const matcher = createMatcher(pattern)
    const budget = createScanBudget(matcher)
    let place = 0
    do {
      place = space.walk(place, placesAtOnce, key => {
        if (matcher.matches(key)) see(key)
        return !budget.isUsedUp()
      })
      if (place !== 0) await budget.nextTurn()
    } while (place !== 0)
  }

  async function count(space: Keyspace): Promise<number> {
    let keys = 0
    await throughout(space, '*', () => keys++)
    return keys
  }

  return {
    get: (tenant, key) => using(tenant, space => space.get(key)),
    set: (tenant, key, value, { ttlMs, onlyIf }) =>
      writing(tenant, space => {
        if (onlyIf !== undefined && space.has(key) !== (onlyIf === 'present')) return false
        space.set(key, value, ttlMs)
        return true
      }),
    remove: (tenant, keys) =>
      using(tenant, space => {
        const removed = keys.reduce((count, key) => count + (space.remove(key) ? 1 : 0), 0)
        // A Map that held many keys keeps its memory, so an empty one is replaced.
        if (space.bytes === 0) drop(tenant.id)
        return removed
      }),
    add: (tenant, key, by) => writing(tenant, space => space.add(key, by)),
    expire: (tenant, key, seconds) => using(tenant, space => space.expire(key, seconds * 1000)),
    ttl: (tenant, key) => using(tenant, space => secondsOf(space.ttlMs(key))),
    has: (tenant, key) => using(tenant, space => space.has(key)),
    getAll: (tenant, keys) =>
      using(tenant, space => {
        let length = 0
        return keys.map(key => {
          const value = space.get(key) ?? null
          length += value?.length ?? 0
          checkAnswer(length)
          return value
        })
      }),
    setAll: (tenant, pairs) => writing(tenant, space => space.setAll(pairs)),

    scan: (tenant, cursor, pattern, count) =>
      using(tenant, space => {
        const matcher = createMatcher(pattern)
        const budget = createScanBudget(matcher)
        const keys: string[] = []
        const end = space.walk(Number(cursor), placesAtOnce, key => {
          if (matcher.matches(key)) keys.push(key)
          return keys.length < count && !budget.isUsedUp()
        })
        return { cursor: String(end), keys }
      }),

    async list(tenant, pattern, limit, offset) {
      const space = await using(tenant, found => found)
      const entries: CacheEntry[] = []
      let total = 0
      await throughout(space, pattern, key => {
        if (total >= offset && entries.length < limit) entries.push(entryOf(space, key)!)
        total++
      })
      return { entries, total }
    },

    read: (tenant, key) =>
      using(tenant, space => {
        const entry = entryOf(space, key)
        return entry && { ...entry, value: space.get(key)!, truncated: false }
      }),

    async flush(tenant) {
      const space = await using(tenant, () => drop(tenant.id))
      return space ? count(space) : 0
    },

    async stats(tenant) {
      const space = await using(tenant, found => found)
      return {
        engine: 'memory',
        key_count: await count(space),
        memory_bytes: space.bytes,
        max_bytes: space.maxBytes,
      }
    },

    warnings: () => [],
    created: async () => {},
    removed: async projectId => void drop(projectId),
    changed(projectId, tenant) {
      if (!tenant) drop(projectId)
    },
    close: () => ownership.close(),
  }
}

/** The largest project, and the bytes of the second largest. */
function twoBiggest(spaces: Iterable<{ space: Keyspace }>): [Keyspace, number] {
  let biggest: Keyspace | undefined
  let next = 0
  for (const { space } of spaces)
    if (!biggest || space.bytes > biggest.bytes) {
      next = biggest?.bytes ?? 0
      biggest = space
    } else next = Math.max(next, space.bytes)
  return [biggest!, next]
}

function entryOf(space: Keyspace, key: string): CacheEntry | undefined {
  const value = space.get(key)
  if (value === undefined) return
  return { key, type: 'string', ttl: secondsOf(space.ttlMs(key)), size: Buffer.byteLength(value) }
}

function secondsOf(ttlMs: number | undefined): number {
  if (ttlMs === undefined) return -2
  return ttlMs === Number.POSITIVE_INFINITY ? -1 : Math.floor((ttlMs + 500) / 1000)
}
