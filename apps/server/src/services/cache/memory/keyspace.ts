// The in-memory cache of one project: a byte limit with LRU eviction, and expiry to the millisecond. All operations are
// synchronous and no timer runs.
import { LRUCache } from 'lru-cache'
import { sumOf } from '../integer.ts'
import { tooLarge } from '../too-large.ts'
import { createSlots } from './slots.ts'

export interface Keyspace {
  get(key: string): string | undefined
  has(key: string): boolean
  /** Remaining milliseconds; Infinity without expiry, undefined if absent. */
  ttlMs(key: string): number | undefined
  /** Without `ttlMs` it does not expire. */
  set(key: string, value: string, ttlMs?: number): void
  setAll(pairs: readonly (readonly [string, string])[]): void
  add(key: string, by: bigint): bigint
  /** False if the key is absent. */
  expire(key: string, ttlMs: number): boolean
  remove(key: string): boolean
  /**
   * Visits the keys that were added before the position `from`, the latest first, until the visitor stops. 0 is both the start
   * and the end. Visits a bounded number of slots and returns the next position.
   */
  walk(from: number, places: number, see: (key: string) => boolean): number
  /** Removes the least recently used key. */
  evict(): void
  /** Evicts at most so many keys. True if the limit is met. */
  trim(mostKeys: number): boolean
  readonly bytes: number
  /** The byte limit. A write evicts at most `evictedAtOnce` keys. */
  maxBytes: number
}

interface Entry {
  readonly value: string
  readonly bytes: number
  readonly slot: number
}

/** Measured overhead of a key in bytes, approximately. */
const overhead = 200
/** Keys evicted in one turn, about a millisecond. */
export const evictedAtOnce = 2000
/** Slots that a new key checks for expired keys, so that these are evicted before live ones. */
const sweptPerKey = 2

/** `weigh` is called with every change of the size in bytes. */
export function createKeyspace(
  weigh: (bytes: number) => void,
  clock: { now(): number } = performance,
): Keyspace {
  const slots = createSlots()
  const entries = new LRUCache<string, Entry>({
    // The limit of the LRU cache is fixed at creation, so this module enforces `maxBytes` itself.
    maxSize: Number.MAX_SAFE_INTEGER,
    ttlResolution: 0,
    perf: clock,
    dispose(entry, _key, reason) {
      weigh(-entry.bytes)
      if (reason !== 'set') slots.remove(entry.slot)
    },
  })
  let swept = 0

  function sweep(): void {
    for (let count = 0; count < sweptPerKey; count++) {
      if (swept >= slots.length) swept = 0
      const key = slots.keyAt(swept++)
      if (key !== undefined && !entries.has(key)) entries.delete(key)
    }
  }

  /** Without `ttlMs` the time to live does not change. */
  function write(key: string, value: string, ttlMs: number | undefined): void {
    const bytes = costOf(key, value)
    if (bytes > keyspace.maxBytes) throw tooLarge(bytes, keyspace.maxBytes)
    let slot = entries.get(key)?.slot
    if (slot === undefined) {
      sweep()
      slot = slots.add(key)
    }
    entries.set(
      key,
      { value, bytes, slot },
      { size: bytes, ttl: ttlMs ?? 0, noUpdateTTL: ttlMs === undefined },
    )
    weigh(bytes)
  }

  const keyspace: Keyspace = {
    maxBytes: 0,
    get bytes() {
      return entries.calculatedSize
    },
    get: key => entries.get(key)?.value,
    has: key => entries.get(key) !== undefined,
    ttlMs: key => (entries.get(key) === undefined ? undefined : entries.getRemainingTTL(key)),
    set(key, value, ttlMs = 0) {
      write(key, value, ttlMs)
      keyspace.trim(evictedAtOnce)
    },

    setAll(pairs) {
      const bytes = pairs.reduce((sum, [key, value]) => sum + costOf(key, value), 0)
      if (bytes > keyspace.maxBytes) throw tooLarge(bytes, keyspace.maxBytes)
      for (const [key, value] of pairs) write(key, value, 0)
      keyspace.trim(evictedAtOnce)
    },

    add(key, by) {
      const sum = sumOf(entries.get(key)?.value ?? '0', by)
      write(key, String(sum), undefined)
      keyspace.trim(evictedAtOnce)
      return sum
    },

    expire(key, ttlMs) {
      const entry = entries.get(key)
      if (!entry) return false
      if (ttlMs > 0) entries.set(key, entry, { size: entry.bytes, ttl: ttlMs })
      else entries.delete(key)
      return true
    },

    remove: key => entries.has(key) && entries.delete(key),

    walk(from, places, see) {
      let place = from === 0 ? slots.length : slots.below(from)
      const end = Math.max(0, place - places)
      let isWanted = true
      while (place > end && isWanted) {
        const key = slots.keyAt(--place)
        if (key !== undefined && entries.has(key)) isWanted = see(key)
      }
      return place === 0 ? 0 : slots.numberAt(place)
    },

    evict: () => void entries.pop(),
    trim(mostKeys) {
      for (let evicted = 0; entries.calculatedSize > keyspace.maxBytes; evicted++) {
        if (evicted === mostKeys) return false
        entries.pop()
      }
      return true
    },
  }
  return keyspace
}

const costOf = (key: string, value: string) => bytesOf(key) + bytesOf(value) + overhead

/** V8 uses one byte per character only if all are Latin-1. */
function bytesOf(text: string): number {
  const bytes = Buffer.byteLength(text)
  return bytes === text.length ? bytes : Math.max(bytes, text.length * 2)
}
