// What keeps the cached values of projects: this process, or Redis. Both behave the same, so that one suite of tests
// holds them to it. An engine that knows the answer gives it at once: a promise costs a turn of the event loop.
import type { CacheEntry, CacheStats, CacheValue } from '@plinth/contract/cache.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

export type Answer<T> = T | Promise<T>

export interface SetOptions {
  /** Milliseconds to live; without, the key does not expire. */
  ttlMs: number | undefined
  /** Written only if the key is absent, or only if it is present. */
  onlyIf: 'absent' | 'present' | undefined
}

export interface Page {
  entries: CacheEntry[]
  /** Of all keys that match. */
  total: number
}

export interface CacheEngine {
  get(tenant: Tenant, key: string): Answer<string | undefined>
  /** False when the condition was not met. */
  set(tenant: Tenant, key: string, value: string, options: SetOptions): Answer<boolean>
  /** How many of the keys there were. */
  remove(tenant: Tenant, keys: readonly string[]): Answer<number>
  /** Adds to an integer, keeping its time to live. */
  add(tenant: Tenant, key: string, by: bigint): Answer<bigint>
  /** False when the key is absent; with 0 or less it is removed. */
  expire(tenant: Tenant, key: string, seconds: number): Answer<boolean>
  /** -1 without expiry, -2 when absent. */
  ttl(tenant: Tenant, key: string): Answer<number>
  has(tenant: Tenant, key: string): Answer<boolean>
  getAll(tenant: Tenant, keys: readonly string[]): Answer<(string | null)[]>
  /** All of them or none. */
  setAll(tenant: Tenant, pairs: readonly (readonly [key: string, value: string])[]): Answer<void>
  /** A part of the keys, and where the next part begins: '0' at both ends. */
  scan(
    tenant: Tenant,
    cursor: string,
    pattern: string,
    count: number,
  ): Answer<{ cursor: string; keys: string[] }>

  list(tenant: Tenant, pattern: string, limit: number, offset: number): Promise<Page>
  read(tenant: Tenant, key: string): Answer<CacheValue | undefined>
  /** How many keys there were. */
  flush(tenant: Tenant): Promise<number>
  stats(tenant: Tenant): Promise<CacheStats>

  /** What an operator has to know. */
  warnings(): readonly string[]
  /** A project was made; what fails here is put right when the cache is first used. */
  created(projectId: string): Promise<void>
  /** Nothing of the project may be left when this returns. */
  removed(projectId: string): Promise<void>
  /** A project changed: it may be suspended or gone. */
  changed(projectId: string, tenant: Tenant | undefined): void
  close(): Promise<void>
}
