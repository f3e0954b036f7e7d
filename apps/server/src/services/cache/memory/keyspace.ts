// The cache of one project in this process: bounded in bytes, the least recently used goes first, expiry to the
// millisecond. Everything here is done at once; nothing runs while nobody calls.
import { LRUCache } from 'lru-cache'
import { sumOf } from '../integer.ts'
import { tooLarge } from '../too-large.ts'
import { createSlots } from './slots.ts'

export interface Keyspace {
  get(key: string): string | undefined
  has(key: string): boolean
  /** Milliseconds left; Infinity without expiry, undefined when absent. */
  ttlMs(key: string): number | undefined
  /** Without `ttlMs` it does not expire. */
  set(key: string, value: string, ttlMs?: number): void
  setAll(pairs: readonly (readonly [string, string])[]): void
  add(key: string, by: bigint): bigint
  /** False when the key is absent. */
  expire(key: string, ttlMs: number): boolean
  remove(key: string): boolean
  /**
   * Shows the keys that came in before the one at `from`, the latest first, for as long as they are wanted; 0 stands
   * for both ends. Looks at so many places at most, and answers where to go on.
   */
  walk(from: number, places: number, see: (key: string) => boolean): number
  /** Removes the key that was used least recently. */
  evict(): void
  /** Evicts at most so many keys while there are too many bytes; true when there are not. */
  trim(mostKeys: number): boolean
  readonly bytes: number
  /** Above it, the least recently used keys are evicted; a write evicts at most `evictedAtOnce` of them. */
  maxBytes: number
}

interface Entry {
  readonly value: string
  readonly bytes: number
  readonly slot: number
}

/** What a key costs besides its text and its value's: measured, about. */
const overhead = 200
/** Keys evicted without a pause: about a millisecond. */
export const evictedAtOnce = 2000
/** How many places a new key looks at, so that what has expired does not push out what has not. */
const sweptPerKey = 2

/** `weigh` is told of every byte that comes or goes. */
export function createKeyspace(
  weigh: (bytes: number) => void,
  clock: { now(): number } = performance,
): Keyspace {
  const slots = createSlots()
  const entries = new LRUCache<string, Entry>({
    // The bound is ours to keep: this one could not be changed.
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

  /** Without `ttlMs` the time to live stays as it is. */
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

/** In memory: one byte per character only where all of them are plain. */
function bytesOf(text: string): number {
  const bytes = Buffer.byteLength(text)
  return bytes === text.length ? bytes : Math.max(bytes, text.length * 2)
}
