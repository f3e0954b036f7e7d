// Only one process may serve the in-memory cache, because two would give different answers. The owner holds an advisory lock
// in the control database. A session can end without its process noticing. So the owner serves only for `trustMs` after the
// last confirmation, and a process that finds the lock free but not released waits for longer than that.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import * as store from './ownership-store.ts'

export interface Ownership {
  /** Whether this process may serve without confirming the lock first. */
  isOwner(): boolean
  /** Confirms or acquires the lock. Throws if another process owns the cache. */
  acquire(): Promise<void>
  /** Releases the cache. */
  close(): Promise<void>
}

interface OwnershipDeps {
  openSession(): Promise<{ session: Session; close(): Promise<void> }>
  /** Called when another process may have owned the cache meanwhile, so that local values may be stale. */
  clear(): void
}

const trustMs = 1000
/** The lock is confirmed in the background before `trustMs` ends, so that requests do not wait. */
const renewMs = 400
const graceMs = 1500
const answerTimeoutMs = 5000
/** After a failed attempt, requests are rejected without a new one for this time. */
const refusalMs = 500

export function createOwnership({ openSession, clear }: OwnershipDeps): Ownership {
  const id = crypto.randomUUID()
  let held: Awaited<ReturnType<OwnershipDeps['openSession']>> | undefined
  let confirmedAt = Number.NEGATIVE_INFINITY
  let refusedAt = Number.NEGATIVE_INFINITY
  let asking: Promise<void> | undefined
  let isClosed = false

  async function take(): Promise<void> {
    if (performance.now() - refusedAt < refusalMs) throw ownedElsewhere()
    const taken = await openSession()
    try {
      if (!(await store.tryLock(taken.session))) {
        refusedAt = performance.now()
        throw ownedElsewhere()
      }
      const last = await store.findOwner(taken.session)
      if (last !== id) {
        if (last !== undefined) await sleep(graceMs)
        clear()
      }
      const askedAt = performance.now()
      await store.saveOwner(taken.session, id)
      if (isClosed) throw ownedElsewhere()
      held = taken
      confirmedAt = askedAt
    } catch (error) {
      await taken.close().catch(() => {})
      throw error
    }
  }

  async function renew(session: Session): Promise<void> {
    const askedAt = performance.now()
    await withTimeout(store.answers(session))
    confirmedAt = askedAt
  }

  async function ask(): Promise<void> {
    if (isClosed) throw ownedElsewhere()
    if (!held) return take()
    try {
      await renew(held.session)
    } catch {
      const lost = held
      held = undefined
      void lost.close().catch(() => {})
      await take()
    }
  }

  function acquire(): Promise<void> {
    asking ??= ask().finally(() => {
      asking = undefined
    })
    return asking
  }

  return {
    isOwner() {
      const age = performance.now() - confirmedAt
      if (age >= trustMs) return false
      if (age > renewMs && !asking) void acquire().catch(() => {})
      return true
    },
    acquire,
    async close() {
      isClosed = true
      confirmedAt = Number.NEGATIVE_INFINITY
      await asking?.catch(() => {})
      await withTimeout(held ? store.removeOwner(held.session, id) : Promise.resolve()).catch(() => {})
      await held?.close().catch(() => {})
    },
  }
}

/** A half-open connection would not answer for a long time. */
async function withTimeout(answer: Promise<unknown>): Promise<void> {
  const late = new AbortController()
  const limit = sleep(answerTimeoutMs, undefined, { signal: late.signal }).then(
    () => {
      throw new Error('the control database does not answer')
    },
    () => {},
  )
  try {
    await Promise.race([answer, limit])
  } finally {
    late.abort()
  }
}

const ownedElsewhere = () =>
  new Refusal('cache_unavailable', 'Another process of the platform keeps the cache in its memory', {
    hint: 'Set REDIS_URL for all processes of the platform: then they share one cache.',
    headers: { 'retry-after': '1' },
  })
