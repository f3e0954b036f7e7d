// Scans the keys of a project over the connection of the platform. SCAN visits the keys of all projects and filters by
// pattern; the prefix of each result is checked again here.
import type { CacheEntry, CacheStats } from '@plinth/contract/cache.ts'
import type { RedisConnection } from '#src/kernel/redis/connection.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { Page } from '../engine.ts'
import { createMatcher } from '../glob.ts'
import { createScanBudget } from '../scan-budget.ts'
import { mergeSorted } from './merge-sorted.ts'
import { describe } from './reading.ts'
import { escapePattern, prefixOf } from './users.ts'

/** The COUNT of one SCAN command, during which Redis is blocked. */
const scanAtOnce = 1000
const removeAtOnce = 500
/** Maximum commands for one page of a scan, even if they find few keys. */
const scansPerAnswer = 16
const sampled = 100
const remembered = 100_000

interface Found {
  /** The cursor of Redis; '0' at the end. */
  cursor: string
  /** Full keys with the prefix. SCAN may return a key twice. */
  keys: Buffer[]
}

async function findKeys(
  redis: RedisConnection,
  projectId: string,
  cursor: string,
  count: number,
): Promise<Found> {
  const prefix = prefixOf(projectId)
  const command = ['SCAN', cursor, 'MATCH', `${escapePattern(prefix)}*`, 'COUNT', String(count)]
  const [next, keys] = (await redis.sendForBytes(command)) as [Buffer, Buffer[]]
  const bytes = Buffer.from(prefix)
  return {
    cursor: next.toString(),
    keys: keys.filter(key => key.subarray(0, bytes.length).equals(bytes)),
  }
}

/** The key without the prefix of the project. */
const bareKey = (projectId: string, key: Buffer) => key.toString('utf8', prefixOf(projectId).length)

async function* allKeys(redis: RedisConnection, projectId: string): AsyncGenerator<Buffer[]> {
  let cursor = '0'
  do {
    const found = await findKeys(redis, projectId, cursor, scanAtOnce)
    yield found.keys
    cursor = found.cursor
  } while (cursor !== '0')
}

/** Removes duplicates. Only a bounded number of keys is remembered, so a count of very many may be too high. */
async function* eachKey(redis: RedisConnection, projectId: string): AsyncGenerator<Buffer[]> {
  const seen = new Set<string>()
  const isNew = (key: Buffer) => {
    const text = key.toString('latin1')
    if (seen.has(text)) return false
    if (seen.size < remembered) seen.add(text)
    return true
  }
  for await (const keys of allKeys(redis, projectId)) yield keys.filter(isNew)
}

/** Increases COUNT if few of the scanned keys belong to the project. */
export async function scanKeys(
  redis: RedisConnection,
  projectId: string,
  cursor: string,
  pattern: string,
  count: number,
): Promise<{ cursor: string; keys: string[] }> {
  const match = createMatching(pattern)
  const keys: string[] = []
  let next = cursor
  let width = count
  for (let scans = 0; scans < scansPerAnswer; scans++) {
    const found = await findKeys(redis, projectId, next, width)
    const bare = found.keys.map(key => bareKey(projectId, key))
    for (const key of bare) if (await match(key)) keys.push(key)
    next = found.cursor
    if (next === '0' || keys.length >= count) break
    if (found.keys.length === 0) width = Math.min(width * 4, scanAtOnce)
  }
  return { cursor: next, keys }
}

/**
 * Keys are listed in order, because the order of SCAN changes whenever Redis resizes its table, and pages in that order
 * would repeat some keys and miss others. Only a bounded number is sorted; further keys follow as Redis returns them.
 */
export async function listKeys(
  redis: RedisConnection,
  projectId: string,
  pattern: string,
  limit: number,
  offset: number,
): Promise<Page> {
  const match = createMatching(pattern)
  const sorted: Buffer[][] = []
  const further: Buffer[] = []
  let total = 0
  for await (const keys of eachKey(redis, projectId)) {
    const matching: Buffer[] = []
    for (const key of keys) if (await match(bareKey(projectId, key))) matching.push(key)
    if (total < remembered) sorted.push(matching.sort(Buffer.compare))
    else further.push(...matching.slice(Math.max(offset - total, 0), Math.max(offset + limit - total, 0)))
    total += matching.length
  }
  const inOrder = await inSlices(mergeSorted(sorted, Buffer.compare))
  const page = [...inOrder.slice(offset, offset + limit), ...further]
  const entries = await Promise.all(page.map(key => describe(redis, key, bareKey(projectId, key))))
  return { entries: entries.filter((entry): entry is CacheEntry => entry !== undefined), total }
}

/** Returns the number of keys. */
export async function removeKeys(redis: RedisConnection, projectId: string): Promise<number> {
  let removed = 0
  for await (const keys of allKeys(redis, projectId)) removed += await unlink(redis, keys)
  return removed
}

async function unlink(redis: RedisConnection, keys: readonly Buffer[]): Promise<number> {
  let removed = 0
  for (let at = 0; at < keys.length; at += removeAtOnce)
    removed += Number(await redis.send(['UNLINK', ...keys.slice(at, at + removeAtOnce)]))
  return removed
}

export async function statsOf(redis: RedisConnection, projectId: string): Promise<CacheStats> {
  const sample: Buffer[] = []
  let count = 0
  for await (const keys of eachKey(redis, projectId)) {
    sample.push(...keys.slice(0, sampled - sample.length))
    count += keys.length
  }
  const sizes = await Promise.all(sample.map(key => redis.send(['MEMORY', 'USAGE', key])))
  const bytes = sizes.reduce<number>((sum, size) => sum + Number(size), 0)
  const average = sample.length === 0 ? 0 : bytes / sample.length
  return { engine: 'redis', key_count: count, memory_bytes: Math.round(average * count), max_bytes: null }
}

/** Matches keys against a pattern, and yields to the event loop in between. */
function createMatching(pattern: string): (key: string) => boolean | Promise<boolean> {
  const matcher = createMatcher(pattern)
  const budget = createScanBudget(matcher)
  return key => {
    if (!budget.isUsedUp()) return matcher.matches(key)
    return budget.nextTurn().then(() => matcher.matches(key))
  }
}
