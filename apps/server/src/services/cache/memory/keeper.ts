// Two processes with a cache each would answer differently: one alone keeps it, under an advisory lock of the control
// database. A session can end without its process noticing, so the holder answers only for a moment after it last
// heard from its session, and whoever finds the lock free but not given back waits for longer than that.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export interface Keeper {
  /** Whether this process may answer without asking first. */
  isSure(): boolean
  /** Asks; refuses when another process keeps the cache. */
  makeSure(): Promise<void>
  /** Gives the cache back. */
  close(): Promise<void>
}

interface KeeperDeps {
  openSession(): Promise<{ session: Session; close(): Promise<void> }>
  /** Another process may have kept the cache meanwhile: what is remembered counts no more. */
  startOver(): void
}

const trustMs = 1000
/** Asked again before that is over, so that nobody has to wait. */
const renewMs = 400
const graceMs = 1500
const patienceMs = 5000
/** How long a refusal stands. */
const refusalMs = 500

export function createKeeper({ openSession, startOver }: KeeperDeps): Keeper {
  const id = crypto.randomUUID()
  let held: Awaited<ReturnType<KeeperDeps['openSession']>> | undefined
  let heardAt = Number.NEGATIVE_INFINITY
  let refusedAt = Number.NEGATIVE_INFINITY
  let asking: Promise<void> | undefined
  let isClosed = false

  async function take(): Promise<void> {
    if (performance.now() - refusedAt < refusalMs) throw keptElsewhere()
    const taken = await openSession()
    try {
      const lock = await taken.session.row<{ taken: boolean }>(
        sql`select pg_try_advisory_lock(hashtextextended('cache keeper', 0)) as taken`,
      )
      if (!lock?.taken) {
        refusedAt = performance.now()
        throw keptElsewhere()
      }
      const last = await taken.session.row<{ keeper: string }>(sql`select keeper from public.cache_keeper`)
      if (last?.keeper !== id) {
        if (last) await sleep(graceMs)
        startOver()
      }
      const askedAt = performance.now()
      await taken.session.run(sql`
        insert into public.cache_keeper (keeper) values (${id}) on conflict (only_row) do update set keeper = ${id}`)
      if (isClosed) throw keptElsewhere()
      held = taken
      heardAt = askedAt
    } catch (error) {
      await taken.close().catch(() => {})
      throw error
    }
  }

  async function renew(session: Session): Promise<void> {
    const askedAt = performance.now()
    await inTime(session.row(sql`select 1`))
    heardAt = askedAt
  }

  async function ask(): Promise<void> {
    if (isClosed) throw keptElsewhere()
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

  function makeSure(): Promise<void> {
    asking ??= ask().finally(() => {
      asking = undefined
    })
    return asking
  }

  return {
    isSure() {
      const age = performance.now() - heardAt
      if (age >= trustMs) return false
      if (age > renewMs && !asking) void makeSure().catch(() => {})
      return true
    },
    makeSure,
    async close() {
      isClosed = true
      heardAt = Number.NEGATIVE_INFINITY
      await asking?.catch(() => {})
      await inTime(
        held?.session.run(sql`delete from public.cache_keeper where keeper = ${id}`) ?? Promise.resolve(),
      ).catch(() => {})
      await held?.close().catch(() => {})
    },
  }
}

/** A connection whose other end has vanished says nothing for a long time. */
async function inTime(answer: Promise<unknown>): Promise<void> {
  const late = new AbortController()
  const limit = sleep(patienceMs, undefined, { signal: late.signal }).then(
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

const keptElsewhere = () =>
  new Refusal('cache_unavailable', 'Another process of the platform keeps the cache in its memory', {
    hint: 'Set REDIS_URL for all processes of the platform: then they share one cache.',
    headers: { 'retry-after': '1' },
  })
