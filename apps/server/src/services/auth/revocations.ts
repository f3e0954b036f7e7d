// Revocation of access tokens before they expire: sessions end and users are banned. Each node caches the revocations of
// a project and polls for new ones at most twice a second while signed-in users call. An idle project costs nothing, and
// no node depends on a message from another node.
import { Refusal } from '#src/kernel/errors.ts'
import { unavailable } from '#src/kernel/postgres/unavailable.ts'
import type { Revocations } from '#src/planes/data/plane.ts'
import type { AuthStatement, Caller, Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

interface ProjectCache {
  /** The project has more revocations than the cache holds, so every call queries the database. */
  isOverflowing: boolean
  /** Revoked subjects (sessions and users) and the time until which their tokens are rejected. */
  readonly until: Map<string, number>
  /** xmin of the last poll's snapshot. The next poll reads from it, so a late commit is not skipped. */
  cursor: string
  polledAt: number
  pending: Promise<void> | undefined
}

const pollAfterMs = 400
/** A cache older than this admits no caller until a poll succeeds. */
const staleAfterMs = 900
/** A longer gap reads everything again, because rows of removed revocations may have been deleted meanwhile. */
const resetAfterMs = 30_000
const cleanUpAt = 1000
const maxEntries = 10_000

const newRevocations: AuthStatement = {
  name: 'revocations',
  sql: `
    select pg_snapshot_xmin(pg_current_snapshot())::text,
           coalesce(json_agg(json_build_array(subject,
             extract(epoch from least(until, timestamptz '9999-01-01')) * 1000)), '[]')
      from (select subject, until from auth.revocations where xid >= $1::xid8 limit ${maxEntries + 1}) r`,
}

/** A token signed outside this service may have any text as its ids. */
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const isRevokedNow: AuthStatement = {
  name: 'is revoked',
  sql: 'select exists (select from auth.revocations where subject = any($1::uuid[]) and until > now())',
}

/** Answers without waiting while the cache is fresh. If the database is down, it refuses the caller. */
export function createRevocations(databases: Databases): Revocations {
  const caches = new Map<string, ProjectCache>()
  databases.onIdle(id => void caches.delete(id))

  function poll(cache: ProjectCache, caller: Caller): Promise<void> {
    cache.pending ??= readNew(cache, caller).finally(() => {
      cache.pending = undefined
    })
    return cache.pending
  }

  async function readNew(cache: ProjectCache, { tenant }: Caller): Promise<void> {
    const startedAt = performance.now()
    if (startedAt - cache.polledAt > resetAfterMs) reset(cache)
    const [cursor, json] = await query(tenant, newRevocations, [cache.cursor])
    const entries = JSON.parse(json!) as [string, number][]
    cache.isOverflowing = cache.until.size + entries.length > maxEntries
    if (cache.isOverflowing) reset(cache)
    else {
      for (const [subject, until] of entries) cache.until.set(subject, until)
      cache.cursor = cursor!
    }
    cache.polledAt = startedAt
    if (cache.until.size >= cleanUpAt)
      for (const [subject, until] of cache.until) if (until < Date.now()) cache.until.delete(subject)
  }

  /** Fails closed: an error refuses the caller. */
  async function query(
    tenant: Tenant,
    statement: AuthStatement,
    values: string[],
  ): Promise<(string | undefined)[]> {
    try {
      const { rows } = await databases.asAuth(tenant, statement, values)
      return rows[0]!.map(cell => cell?.toString('utf8'))
    } catch (error) {
      throw error instanceof Refusal ? error : unavailable(error)
    }
  }

  /** Postgres writes UUIDs in lower case. A token signed elsewhere may have the same id in upper case. */
  const isCached = ({ until }: ProjectCache, subject: string) =>
    until.size > 0 && (until.get(subject.toLowerCase()) ?? 0) > Date.now()
  function check(cache: ProjectCache, { tenant, userId, sessionId }: Caller): boolean | Promise<boolean> {
    if (!cache.isOverflowing) return isCached(cache, userId) || isCached(cache, sessionId)
    const subjects = [userId, sessionId].filter(id => uuid.test(id))
    return query(tenant, isRevokedNow, [`{${subjects.join(',')}}`]).then(([isRevoked]) => isRevoked === 't')
  }

  return {
    isRevoked(caller) {
      const { id } = caller.tenant
      let cache = caches.get(id)
      if (!cache) {
        cache = emptyCache()
        caches.set(id, cache)
      }
      const age = performance.now() - cache.polledAt
      if (age <= pollAfterMs) return check(cache, caller)
      const polled = poll(cache, caller)
      if (age > staleAfterMs) return polled.then(() => check(cache, caller))
      // This caller does not wait for the poll. If it fails, a later caller finds the cache stale and polls again.
      polled.catch(() => {})
      return check(cache, caller)
    },
  }
}

const emptyCache = (): ProjectCache => ({
  isOverflowing: false,
  until: new Map(),
  cursor: '0',
  polledAt: Number.NEGATIVE_INFINITY,
  pending: undefined,
})

function reset(cache: ProjectCache): void {
  cache.until.clear()
  cache.cursor = '0'
}
