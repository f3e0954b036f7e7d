// Webhooks of the projects: their settings, secrets and tables, and test deliveries.
import type { Attachment, TestResult, Webhook, WebhookWithSecret } from '@plinth/contract/webhooks.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { orderedUuid } from '#src/kernel/ordered-uuid.ts'
import type { KeepAlive } from '#src/kernel/outbound/keep-alive.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { AttachedTables } from './attached-tables.ts'
import { deleteWaiting } from './deliveries-store.ts'
import { checkEvents, checkOperations } from './events.ts'
import { currentPosition } from './events-store.ts'
import { sources } from './relay.ts'
import { sealSecret } from './secrets.ts'
import { newSecret } from './signature.ts'
import * as store from './store.ts'
import { checkTarget } from './target.ts'
import { createTestDelivery } from './test-delivery.ts'

export interface WebhooksDeps {
  control: Database
  sealer: Sealer
  owner: Pick<OwnerWork, 'tenant'>
  directory: Pick<Directory, 'forget'>
  databases: Pick<Databases, 'asService'>
  tables: AttachedTables
  client: Pick<KeepAlive, 'check' | 'post'>
  /** Watches the changes of a project from now on. */
  watch(projectId: string): Promise<void>
  log: Log
}

export type WebhooksService = ReturnType<typeof webhooksService>

const defaultMaxWebhooks = 50
const maxListeners = 20
const overlapSeconds = 24 * 3600

export function webhooksService(deps: WebhooksDeps) {
  const { control, sealer, owner, directory, databases, tables, client, watch } = deps
  const test = createTestDelivery(client, sealer, deps.log)

  /** Other nodes learn of it within a quarter of a second. */
  async function change<T>(tenant: Tenant, work: (session: Session) => Promise<T>): Promise<T> {
    const result = await control.transaction(async session => {
      await store.lockProject(session, tenant.id)
      return work(session)
    })
    directory.forget(tenant.id)
    return result
  }

  function checkCount(
    tenant: Tenant,
    { webhooks, listeners }: { webhooks: number; listeners: number },
    isListener: boolean,
  ) {
    const most = isListener ? maxListeners : (tenant.quotas.max_webhooks ?? defaultMaxWebhooks)
    if ((isListener ? listeners : webhooks) < most) return
    throw isListener
      ? new Refusal('too_many_webhooks', `The project has ${most} open listeners; close some of them`)
      : new Refusal('too_many_webhooks', `The project has ${most} webhooks; delete some of them`, {
          hint: 'The operator can raise the quota max_webhooks of the project.',
        })
  }

  const find = async (projectId: string, webhookId: string) =>
    (await store.findWebhook(control, projectId, webhookId)) ?? throwNotFound()
  const attachedAs = async (projectId: string, webhookId: string) =>
    (await store.findAttachedAs(control, projectId, (await find(projectId, webhookId)).id)) ?? throwNotFound()

  /** Adds a webhook, or a listener without a URL. */
  async function add(
    tenant: Tenant,
    given: {
      url: string | null
      events: readonly string[]
      description: string
      livesSeconds: number | null
    },
  ): Promise<WebhookWithSecret> {
    const id = orderedUuid()
    const secret = newSecret()
    // Read before the webhook exists: its first event comes later.
    const position = await currentPosition(databases, tenant)
    const webhook = await change(tenant, async session => {
      checkCount(tenant, await store.countWebhooks(session, tenant.id), given.url === null)
      await store.insertCursors(session, tenant.id, sources, position)
      const sealedSecret = sealSecret(sealer, tenant.id, id, secret)
      return (await store.insertWebhook(session, { id, projectId: tenant.id, ...given, sealedSecret }))!
    })
    await watch(tenant.id)
    return { ...webhook, secret }
  }

  /** Triggers go first: a change that is noted for a webhook that does not exist would stay. */
  async function removeOne(tenant: Tenant, webhookId: string, remove: (session: Session) => Promise<number>) {
    const name = await store.findAttachedAs(control, tenant.id, webhookId)
    if (name !== undefined) await tables.detachAll(tenant, name)
    const isLast = await change(tenant, async session => {
      await store.lockCursors(session, tenant.id)
      if ((await remove(session)) === 0) throwNotFound()
      return store.deleteUnusedCursors(session, tenant.id)
    })
    if (isLast) await tables.deleteChanges(tenant)
    await watch(tenant.id)
  }

  return {
    add,
    removeOne,

    async create(
      projectId: string,
      { url, events, description = '' }: { url: string; events: readonly string[]; description?: string },
    ): Promise<WebhookWithSecret> {
      const tenant = await owner.tenant(projectId)
      const selected = checkEvents(events)
      await checkTarget(client, url)
      return add(tenant, { url, events: selected, description, livesSeconds: null })
    },

    async list(projectId: string, page: Paging) {
      const { id } = await owner.tenant(projectId)
      return { ...(await store.listWebhooks(control, id, page)), ...page }
    },

    async read(projectId: string, webhookId: string): Promise<Webhook> {
      const { id } = await owner.tenant(projectId)
      return find(id, webhookId)
    },

    async update(projectId: string, webhookId: string, changes: store.WebhookChange): Promise<Webhook> {
      const tenant = await owner.tenant(projectId)
      const events = changes.events && checkEvents(changes.events)
      await find(tenant.id, webhookId)
      if (changes.url !== undefined) await checkTarget(client, changes.url)
      const updated = await change(tenant, async session => {
        if (changes.is_active === false) {
          await store.lockWebhook(session, webhookId)
          await deleteWaiting(session, webhookId)
        }
        return store.updateWebhook(session, tenant.id, webhookId, { ...changes, ...(events && { events }) })
      })
      return updated ?? throwNotFound()
    },

    async remove(projectId: string, webhookId: string): Promise<void> {
      const tenant = await owner.tenant(projectId)
      await find(tenant.id, webhookId)
      await removeOne(tenant, webhookId, session => store.deleteWebhook(session, tenant.id, webhookId))
    },

    async rotateSecret(projectId: string, webhookId: string): Promise<WebhookWithSecret> {
      const tenant = await owner.tenant(projectId)
      const secret = newSecret()
      const sealed = sealSecret(sealer, tenant.id, webhookId, secret)
      const webhook = await change(tenant, session =>
        store.rotateSecret(session, tenant.id, webhookId, sealed, overlapSeconds),
      )
      return { ...(webhook ?? throwNotFound()), secret }
    },

    async test(projectId: string, webhookId: string): Promise<TestResult> {
      const { id } = await owner.tenant(projectId)
      return test((await store.findTarget(control, id, webhookId)) ?? throwNotFound())
    },

    async attach(
      projectId: string,
      webhookId: string,
      { schema = 'public', table, events }: { schema?: string; table: string; events?: readonly string[] },
    ): Promise<Attachment> {
      const tenant = await owner.tenant(projectId)
      const wanted = checkOperations(events)
      await tables.attach(tenant, await attachedAs(tenant.id, webhookId), {
        schema,
        table,
        events: wanted,
      })
      return { schema, table, events: wanted }
    },

    async detach(projectId: string, webhookId: string, schema: string, table: string): Promise<void> {
      const tenant = await owner.tenant(projectId)
      await tables.detach(tenant, await attachedAs(tenant.id, webhookId), { schema, table })
    },

    async listAttachments(projectId: string, webhookId: string, { limit, offset }: Paging) {
      const tenant = await owner.tenant(projectId)
      const all = await tables.list(tenant, await attachedAs(tenant.id, webhookId))
      return { attachments: all.slice(offset, offset + limit), total: all.length, limit, offset }
    },
  }
}

export function throwNotFound(): never {
  throw new Refusal('webhook_not_found', 'The project has no webhook with this id')
}
