// Attaches webhooks to tables of projects, as superuser. Creating a trigger needs a lock that conflicts with writers.
// Other writers queue behind the request for it, so each attempt waits only for a moment.
import { setTimeout as sleep } from 'node:timers/promises'
import { guardedSettings, type Session, withClient } from '#src/kernel/postgres/database.ts'
import { DatabaseError, sqlState } from '#src/kernel/postgres/database-error.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import * as store from './attachments-store.ts'

/** Why a webhook cannot be attached, with a sentence for the caller. */
export interface AttachProblem {
  readonly problem: 'unknown_table' | 'not_a_table' | 'reserved'
  readonly message: string
}

export interface Attachments {
  attach(
    ref: string,
    webhookId: string,
    attachment: store.Attachment,
  ): Promise<'attached' | 'locked' | AttachProblem>
  detach(
    ref: string,
    webhookId: string,
    table: Pick<store.Attachment, 'schema' | 'table'>,
  ): Promise<'detached' | 'not_attached' | 'locked'>
  detachAll(ref: string, webhookId: string): Promise<'detached' | 'locked'>
  list(ref: string, webhookId: string): Promise<store.Attachment[]>
}

const lockTimeoutMs = 100
const attempts = 25
const pauseMs = 100
const problems: Record<string, AttachProblem['problem']> = {
  '42P01': 'unknown_table',
  '42809': 'not_a_table',
  '42501': 'reserved',
}
/** lock_not_available and deadlock_detected. */
const lockStates = new Set(['55P03', '40P01'])

export function createAttachments({ address }: Cluster, whenUpgraded: WhenUpgraded): Attachments {
  const within = async <T>(ref: string, work: (session: Session) => Promise<T>): Promise<T> => {
    await whenUpgraded(ref, 'owner')
    return withClient(address, ref, { ...guardedSettings, lock_timeout: `${lockTimeoutMs}ms` }, work)
  }
  return {
    attach: (ref, webhookId, attachment) =>
      within(ref, session =>
        retryWhileLocked(async () => {
          await store.attachWebhook(session, webhookId, attachment)
          return 'attached' as const
        }).catch(attachProblem),
      ),
    detach: (ref, webhookId, table) =>
      within(ref, session =>
        retryWhileLocked(async () =>
          (await store.detachWebhook(session, webhookId, table)) ? 'detached' : 'not_attached',
        ),
      ),
    detachAll: (ref, webhookId) =>
      within(ref, session =>
        retryWhileLocked(async () => {
          await store.detachWebhookEverywhere(session, webhookId)
          return 'detached' as const
        }),
      ),
    list: (ref, webhookId) => within(ref, session => store.listAttachments(session, webhookId)),
  }
}

async function retryWhileLocked<T>(work: () => Promise<T>): Promise<T | 'locked'> {
  for (let attempt = 1; ; attempt++)
    try {
      return await work()
    } catch (error) {
      if (!lockStates.has(sqlState(error) ?? '')) throw error
      if (attempt === attempts) return 'locked'
      await sleep(pauseMs)
    }
}

function attachProblem(error: unknown): AttachProblem {
  const problem = error instanceof DatabaseError ? problems[error.code] : undefined
  if (!problem) throw error
  return { problem, message: (error as DatabaseError).message }
}
