// Runs work as a project's owner. Each run has its own connection, because it may execute any SQL of the tenant.
import { retryLater } from '#src/kernel/errors.ts'
import type { Abandoned } from '#src/kernel/postgres/abandoned.ts'
import { type OwnSession, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import type { Tenant } from './directory.ts'
import type { Logins } from './logins.ts'
import { sessionSettings } from './session-settings.ts'

export interface OwnerOptions {
  signal?: AbortSignal | undefined
  /** The statement_timeout that the work sets. The connection is abandoned if a statement does not end by then. */
  timeoutMs?: number | undefined
}

export type AsOwner = <T>(
  tenant: Pick<Tenant, 'ref'>,
  work: (session: OwnSession) => Promise<T>,
  options?: OwnerOptions,
) => Promise<T>

export interface Owners {
  asOwner: AsOwner
  /** Aborts all running work. */
  close(): void
}

const maxConcurrent = 5

export function createOwners(control: Session, logins: Logins, abandoned: Abandoned): Owners {
  const running = new Map<string, number>()
  const closing = new AbortController()

  async function once<T>(
    ref: string,
    work: (session: OwnSession) => Promise<T>,
    { signal, timeoutMs }: OwnerOptions,
  ): Promise<T> {
    let hasBegun = false
    const run = () =>
      withClient(
        logins.address(ref, 'owner'),
        ref,
        sessionSettings,
        session => {
          hasBegun = true
          return work(session)
        },
        {
          signal: signal ? AbortSignal.any([signal, closing.signal]) : closing.signal,
          timeoutMs,
          onAbandoned: processId => abandoned.add(groupOf(ref), { processId, database: ref }),
        },
      )
    await logins.check(control, ref, 'owner')
    try {
      return await run()
    } catch (error) {
      const code = sqlState(error)
      if (hasBegun || (code !== '28P01' && code !== '28000')) throw error
      await logins.heal(control, ref, 'owner')
      return run()
    }
  }

  const asOwner: AsOwner = async ({ ref }, work, options = {}) => {
    const others = running.get(ref) ?? 0
    if (others + abandoned.count(groupOf(ref)) >= maxConcurrent)
      throw retryLater(
        'pool_exhausted',
        'Too many statements run as the owner of this project; try again in a second',
        1,
      )
    running.set(ref, others + 1)
    try {
      return await once(ref, work, options)
    } finally {
      const left = running.get(ref)! - 1
      if (left > 0) running.set(ref, left)
      else running.delete(ref)
    }
  }

  return { asOwner, close: () => closing.abort() }
}

const groupOf = (ref: string) => `${ref}:owner`
