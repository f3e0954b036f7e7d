// Listeners: the command line reads the events of a project and forwards them to a server of the developer, without a
// public URL. A listener is a webhook without a URL. It ends when it is closed, or when it was not read for a minute.
import type { Listener, Streamed } from '@plinth/contract/webhooks.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { AttachedTables } from './attached-tables.ts'
import { checkEvents, invalidEvent, isAuthEvent, readRowChange, selection } from './events.ts'
import * as store from './listeners-store.ts'
import { authMessage, type Message, rowChangeMessage } from './payload.ts'
import { insertDeliveries } from './queue-store.ts'
import { signWith } from './secrets.ts'
import type { WebhooksService } from './service.ts'
import { listReceivers } from './store.ts'

interface ListenersDeps {
  control: Database
  sealer: Sealer
  owner: Pick<OwnerWork, 'tenant'>
  directory: Pick<Directory, 'find'>
  tables: AttachedTables
  webhooks: Pick<WebhooksService, 'add' | 'removeOne'>
  /** Resolves when deliveries of the project were queued, or after the given time. */
  nextQueued(projectId: string, ms: number): Promise<void>
  /** Tells that deliveries of the project were queued. */
  queued(projectId: string): void
  log: Log
}

interface ListenerQuery {
  /** The last delivery that was forwarded. */
  after: string | undefined
  waitMs: number
  /** At most `batch`. 0 only keeps the listener. */
  limit: number | undefined
  signal: AbortSignal
}

export type ListenersService = ReturnType<typeof listenersService>

const livesSeconds = 60
const leaseSeconds = 30
const batch = 20
/** Deliveries that another node has queued are found by polling. */
const pollMs = 500
const expiredAtOnce = 50
/** Bytes of payload that one statement inserts. */
const insertedBytes = 1_000_000

export function listenersService(deps: ListenersDeps) {
  const { control, sealer, owner, directory, tables: attached, webhooks, nextQueued, queued, log } = deps

  async function close(projectId: string, id: string): Promise<void> {
    const tenant = await owner.tenant(projectId)
    await webhooks.removeOne(tenant, id, session => store.deleteListener(session, tenant.id, id))
  }

  return {
    async open(
      projectId: string,
      {
        events = ['*'],
        tables = [],
      }: { events?: readonly string[]; tables?: readonly { schema?: string; table: string }[] },
    ): Promise<Listener> {
      const tenant = await owner.tenant(projectId)
      const {
        id,
        secret,
        events: selected,
      } = await webhooks.add(tenant, {
        url: null,
        events: checkEvents(events),
        description: '',
        livesSeconds,
      })
      try {
        for (const { schema = 'public', table } of tables)
          await attached.attach(tenant, id, { schema, table, events: ['INSERT', 'UPDATE', 'DELETE'] })
      } catch (error) {
        await close(projectId, id)
        throw error
      }
      return { id, events: selected, secret }
    },

    /** Waits for deliveries at most for the given time. Those up to `after` are forgotten. */
    async read(
      projectId: string,
      listenerId: string,
      { after, waitMs, limit = batch, signal }: ListenerQuery,
    ): Promise<{ deliveries: Streamed[] }> {
      const { id: project } = await owner.tenant(projectId)
      const secrets =
        (await store.renewListener(control, project, listenerId, livesSeconds)) ?? throwNoListener()
      const sign = signWith(sealer, secrets)
      if (after !== undefined) await store.forgetRead(control, secrets.id, after)
      if (limit === 0) return { deliveries: [] }
      const endAt = performance.now() + waitMs
      for (;;) {
        const rows = await store.readNext(control, secrets.id, limit, leaseSeconds)
        const leftMs = endAt - performance.now()
        if (rows.length > 0 || leftMs <= 0 || signal.aborted)
          return {
            deliveries: rows.map(({ id, event, payload }) => ({
              id,
              event,
              headers: sign(id, payload),
              body: payload,
            })),
          }
        await nextQueued(project, Math.min(pollMs, leftMs))
      }
    },

    close,

    /** Sends an example to all receivers that select the event, whether or not a table is attached. */
    async trigger(projectId: string, event: string, record?: Readonly<Record<string, unknown>>) {
      const { id } = await owner.tenant(projectId)
      const message = exampleOf(id, event, record)
      const receivers = (await listReceivers(control, id)).filter(({ events }) => selection(events)(event))
      const deliveries = receivers.map(receiver => ({
        id: orderedUuid(),
        webhook_id: receiver.id,
        event,
        payload: message.body,
      }))
      const atOnce = Math.max(1, Math.floor(insertedBytes / message.body.length))
      await control.transaction(async session => {
        for (let from = 0; from < deliveries.length; from += atOnce)
          await insertDeliveries(session, deliveries.slice(from, from + atOnce))
      })
      queued(id)
      return { event, deliveries: deliveries.length }
    },

    /** Removes listeners that were not read for a while. */
    async closeExpired(): Promise<void> {
      for (const { id, project_id: projectId } of await store.listExpired(control, expiredAtOnce)) {
        const tenant = await directory.find(projectId)
        if (!tenant) continue
        await webhooks
          .removeOne(tenant, id, session => store.deleteListener(session, tenant.id, id))
          .catch(error => log.warn({ err: error, project: projectId }, 'cannot remove an expired listener'))
      }
    },
  }
}

function exampleOf(
  projectId: string,
  event: string,
  record: Readonly<Record<string, unknown>> = {},
): Message {
  const now = new Date().toISOString()
  if (isAuthEvent(event))
    return authMessage(projectId, {
      id: crypto.randomUUID(),
      kind: event,
      data: JSON.stringify({ user_id: crypto.randomUUID(), email: 'user@example.com' }),
      at: now,
    })
  const change = readRowChange(event)
  if (!change) throw invalidEvent(event)
  const { schema, table, operation } = change
  const row = JSON.stringify(record)
  return rowChangeMessage(projectId, {
    schema,
    table,
    event: operation,
    new: operation === 'DELETE' ? undefined : row,
    old: operation === 'INSERT' ? undefined : row,
    isTruncated: false,
    at: now,
  })
}

function throwNoListener(): never {
  throw new Refusal('webhook_not_found', 'The project has no listener with this id; it may have expired')
}
