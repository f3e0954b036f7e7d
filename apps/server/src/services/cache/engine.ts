// The interface of cache engines: in-memory or Redis. Both behave the same and pass the same tests. An engine that has the
// result returns it synchronously, because a promise costs a turn of the event loop.
import type { CacheEntry, CacheStats, CacheValue } from '@plinth/contract/cache.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

export type Answer<T> = T | Promise<T>

export interface SetOptions {
  /** Time to live in milliseconds. Without it the key does not expire. */
  ttlMs: number | undefined
  /** Writes only if the key is absent, or only if it is present. */
  onlyIf: 'absent' | 'present' | undefined
}

export interface Page {
  entries: CacheEntry[]
  /** The number of all matching keys. */
  total: number
}

export interface CacheEngine {
  get(tenant: Tenant, key: string): Answer<string | undefined>
  /** False if the condition is not met. */
  set(tenant: Tenant, key: string, value: string, options: SetOptions): Answer<boolean>
  /** Returns how many of the keys existed. */
  remove(tenant: Tenant, keys: readonly string[]): Answer<number>
  /** Adds to an integer, keeping its time to live. */
  add(tenant: Tenant, key: string, by: bigint): Answer<bigint>
  /** False if the key is absent. A value of 0 or less removes the key. */
  expire(tenant: Tenant, key: string, seconds: number): Answer<boolean>
  /** -1 without expiry, -2 if absent. */
  ttl(tenant: Tenant, key: string): Answer<number>
  has(tenant: Tenant, key: string): Answer<boolean>
  getAll(tenant: Tenant, keys: readonly string[]): Answer<(string | null)[]>
  /** Writes all of them or none. */
  setAll(tenant: Tenant, pairs: readonly (readonly [key: string, value: string])[]): Answer<void>
  /** A page of keys and the cursor of the next page. '0' starts a scan and ends it. */
  scan(
    tenant: Tenant,
    cursor: string,
    pattern: string,
    count: number,
  ): Answer<{ cursor: string; keys: string[] }>

  list(tenant: Tenant, pattern: string, limit: number, offset: number): Promise<Page>
  read(tenant: Tenant, key: string): Answer<CacheValue | undefined>
  /** Returns the number of removed keys. */
  flush(tenant: Tenant): Promise<number>
  stats(tenant: Tenant): Promise<CacheStats>

  /** Warnings for the operator. */
  warnings(): readonly string[]
  /** Called after a project is created. A failure is repaired on first use. */
  created(projectId: string): Promise<void>
  /** Removes all data of the project before it resolves. */
  removed(projectId: string): Promise<void>
  /** Called when a project has changed, was suspended or deleted. */
  changed(projectId: string, tenant: Tenant | undefined): void
  close(): Promise<void>
}
