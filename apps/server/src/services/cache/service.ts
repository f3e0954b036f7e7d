// Cache operations, independent of the engine.
import type { CacheStats, CacheValue, SetBody } from '@plinth/contract/cache.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { type JsonText, jsonText } from '#src/kernel/json-text.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Answer, CacheEngine, SetOptions } from './engine.ts'

const maxScanCount = 1000
const defaultScanCount = 10
const maxListed = 200
/** Larger answers are encoded in slices. */
const maxCharsAtOnce = 64 * 1024

export type CacheService = ReturnType<typeof cacheService>

export function cacheService(engine: CacheEngine, owner: Pick<OwnerWork, 'tenant'>) {
  return {
    get: (tenant: Tenant, key: string) => then(engine.get(tenant, key), found),
    set: (tenant: Tenant, body: SetBody) =>
      then(engine.set(tenant, body.key, body.value, optionsOf(body)), asOk),
    remove: (tenant: Tenant, keys: readonly string[]) =>
      then(engine.remove(tenant, keys), deleted => ({ deleted })),
    add: (tenant: Tenant, key: string, by: number) => then(engine.add(tenant, key, BigInt(by)), asNumber),
    expire: (tenant: Tenant, key: string, seconds: number) =>
      then(engine.expire(tenant, key, seconds), applied => ({ applied })),
    ttl: (tenant: Tenant, key: string) => then(engine.ttl(tenant, key), ttl => ({ ttl })),
    exists: (tenant: Tenant, key: string) => then(engine.has(tenant, key), exists => ({ exists })),
    getAll: (tenant: Tenant, keys: readonly string[]) => then(engine.getAll(tenant, keys), shownValues),
    setAll: (tenant: Tenant, pairs: Readonly<Record<string, string>>) =>
      then(engine.setAll(tenant, Object.entries(pairs)), () => ({ ok: true })),
    scan: (tenant: Tenant, cursor = '0', pattern = '*', count = defaultScanCount) =>
      engine.scan(tenant, cursor, pattern, Math.min(count, maxScanCount)),

    async list(projectId: string, pattern: string, asked: number, offset: number) {
      const limit = Math.min(asked, maxListed)
      const { entries, total } = await engine.list(await owner.tenant(projectId), pattern, limit, offset)
      return { keys: entries, total, limit, offset }
    },

    async read(projectId: string, key: string): Promise<CacheValue | JsonText> {
      const entry = (await engine.read(await owner.tenant(projectId), key)) ?? absent()
      return typeof entry.value === 'string' && entry.value.length <= maxCharsAtOnce ? entry : jsonText(entry)
    },

    async write(projectId: string, key: string, value: string, ttl: number | undefined): Promise<CacheValue> {
      const tenant = await owner.tenant(projectId)
      const ttlMs = ttl === undefined ? undefined : ttl * 1000
      await engine.set(tenant, key, value, { ttlMs, onlyIf: undefined })
      return { key, type: 'string', ttl: ttl ?? -1, size: Buffer.byteLength(value), value, truncated: false }
    },

    async removeOne(projectId: string, key: string): Promise<void> {
      if ((await engine.remove(await owner.tenant(projectId), [key])) === 0) absent()
    },

    async flush(projectId: string): Promise<{ deleted: number }> {
      return { deleted: await engine.flush(await owner.tenant(projectId)) }
    },

    async stats(projectId: string): Promise<CacheStats> {
      return engine.stats(await owner.tenant(projectId))
    },
  }
}

/** Stays synchronous if the engine does. */
function then<T, R>(answer: Answer<T>, shape: (value: T) => Answer<R>): Answer<R> {
  return answer instanceof Promise ? answer.then(shape) : shape(answer)
}

const asOk = (ok: boolean) => ({ ok })
/** A 64-bit integer may exceed the safe range of a number, so its text is sent unchanged. */
const asNumber = (value: bigint) => ({ value: value as unknown as number })
function found(value: string | undefined): Answer<{ value: string } | JsonText> {
  if (value === undefined) return absent()
  return value.length <= maxCharsAtOnce ? { value } : jsonText({ value })
}

function shownValues(values: (string | null)[]): Answer<{ values: (string | null)[] } | JsonText> {
  let chars = 0
  for (const value of values) chars += value?.length ?? 0
  return chars <= maxCharsAtOnce ? { values } : jsonText({ values })
}

function absent(): never {
  throw new Refusal('cache_key_not_found', 'The cache has no such key')
}

const unconditional: SetOptions = Object.freeze({ ttlMs: undefined, onlyIf: undefined })

function optionsOf({ ex, px, nx, xx }: SetBody): SetOptions {
  if (nx && xx) throw new Refusal('invalid_request', 'With both nx and xx nothing would ever be written')
  const ttlMs = ex === undefined ? px : ex * 1000
  if (ttlMs === undefined && !nx && !xx) return unconditional
  return { ttlMs, onlyIf: nx ? 'absent' : xx ? 'present' : undefined }
}
