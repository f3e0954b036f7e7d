// Reads keys for the management plane: strings, hashes, lists, sets and sorted sets, with a size limit.
import type { CacheEntry, CacheValue } from '@plinth/contract/cache.ts'
import type { RedisArgument } from '#src/kernel/redis/command.ts'
import type { RedisConnection } from '#src/kernel/redis/connection.ts'
import type { RedisReply } from '#src/kernel/redis/replies.ts'

const maxElements = 1000
/** Larger than any value written over HTTP. */
const maxTextBytes = 16 * 1024 * 1024

/** Undefined if the key does not exist. The four commands are pipelined. */
export async function describe(
  redis: RedisConnection,
  whole: RedisArgument,
  key: string,
): Promise<CacheEntry | undefined> {
  const [type, ttl, length, memory] = await Promise.all([
    redis.send(['TYPE', whole]),
    redis.send(['TTL', whole]),
    // STRLEN fails for other types.
    redis.send(['STRLEN', whole]).catch(() => 0),
    redis.send(['MEMORY', 'USAGE', whole]),
  ])
  if (type === 'none' || ttl === -2 || memory === null) return
  return {
    key,
    type: String(type),
    ttl: Number(ttl),
    size: type === 'string' ? Number(length) : Number(memory),
  }
}

export async function readKey(
  redis: RedisConnection,
  whole: string,
  key: string,
): Promise<CacheValue | undefined> {
  const entry = await describe(redis, whole, key)
  if (!entry) return
  const shown = await (readers[entry.type] ?? unreadable)(redis, whole)
  return shown && { ...entry, ...shown }
}

/** Undefined if the key was removed meanwhile. */
type Shown = Pick<CacheValue, 'value' | 'truncated'> | undefined
type Reader = (redis: RedisConnection, key: string) => Promise<Shown>

const readers: Record<string, Reader> = {
  async string(redis, key) {
    const [value, length] = await Promise.all([
      redis.send(['GETRANGE', key, '0', String(maxTextBytes - 1)]),
      redis.send(['STRLEN', key]),
    ])
    return { value, truncated: Number(length) > maxTextBytes }
  },

  async hash(redis, key) {
    const flat = await elements(redis, 'HSCAN', key, 2)
    const pairs = flat.slice(0, 2 * maxElements)
    const fields = pairs.filter((_, index) => index % 2 === 0)
    const value = Object.fromEntries(fields.map((field, index) => [field, pairs[2 * index + 1]]))
    return whole(redis, 'HLEN', key, value)
  },

  async list(redis, key) {
    const value = await redis.send(['LRANGE', key, '0', String(maxElements - 1)])
    return whole(redis, 'LLEN', key, value)
  },

  async set(redis, key) {
    const members = await elements(redis, 'SSCAN', key, 1)
    return whole(redis, 'SCARD', key, members.slice(0, maxElements))
  },

  async zset(redis, key) {
    const range = ['ZRANGE', key, '0', String(maxElements - 1), 'WITHSCORES']
    const pairs = (await redis.send(range)) as string[]
    const members = pairs.filter((_, index) => index % 2 === 0)
    const value = members.map((member, index) => ({ member, score: scoreOf(pairs[2 * index + 1]!) }))
    return whole(redis, 'ZCARD', key, value)
  },
}

const unreadable: Reader = async () => ({ value: null, truncated: true })

/** The first members without duplicates, in no order. */
async function elements(
  redis: RedisConnection,
  command: 'HSCAN' | 'SSCAN',
  key: string,
  width: 1 | 2,
): Promise<string[]> {
  const seen = new Map<string, string[]>()
  let cursor = '0'
  do {
    const [next, items] = (await redis.send([command, key, cursor, 'COUNT', String(maxElements)])) as [
      string,
      string[],
    ]
    for (let at = 0; at < items.length; at += width) seen.set(items[at]!, items.slice(at, at + width))
    cursor = next
  } while (cursor !== '0' && seen.size < maxElements)
  return [...seen.values()].flat()
}

async function whole(redis: RedisConnection, counting: string, key: string, value: unknown): Promise<Shown> {
  const count = Number((await redis.send([counting, key])) as RedisReply)
  return count === 0 ? undefined : { value, truncated: count > maxElements }
}

/** JSON cannot encode Infinity. */
function scoreOf(text: string): number | string {
  const score = Number(text)
  return Number.isNaN(score) ? text : score
}
