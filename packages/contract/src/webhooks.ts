import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery, Text, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

export const authEvents = [
  'user.created',
  'user.updated',
  'user.deleted',
  'user.signed_in',
  'user.signed_out',
] as const
export type AuthEvent = (typeof authEvents)[number]

export const operations = ['INSERT', 'UPDATE', 'DELETE'] as const
export type Operation = (typeof operations)[number]

const Url = Type.String({
  minLength: 1,
  maxLength: 2048,
  pattern: '^[hH][tT][tT][pP][sS]?://[^\\u0000-\\u0020\\u007f]+$',
  description: 'a URL that begins with http:// or https://',
})
const Events = Type.Array(
  Type.String({
    minLength: 1,
    maxLength: 300,
    description: 'an event such as user.created or db.public.todos.insert, or db.public.todos.*, or *',
  }),
  { minItems: 1, maxItems: 100 },
)
const Description = Text(500)

export const Webhook = Type.Object({
  id: Id,
  url: Type.String(),
  events: Type.Array(Type.String()),
  description: Type.String(),
  is_active: Type.Boolean(),
  created_at: Timestamp,
  updated_at: Timestamp,
  failing_since: Nullable(Timestamp),
  switched_off_at: Nullable(
    Type.String({
      format: 'date-time',
      description: 'When the platform switched it off, after five days without a successful delivery.',
    }),
  ),
  secret_overlap_until: Nullable(
    Type.String({
      format: 'date-time',
      description: 'Until then deliveries are signed with the previous secret, too.',
    }),
  ),
})
export type Webhook = Static<typeof Webhook>

const Secret = Type.String({ description: 'The signing secret, whsec_…; it is shown only in this answer.' })
const WebhookWithSecret = Type.Object({ ...Webhook.properties, secret: Secret })
export type WebhookWithSecret = Static<typeof WebhookWithSecret>

export const deliveryStatuses = ['pending', 'delivered', 'dead_letter'] as const
export const DeliveryStatus = Type.Enum(deliveryStatuses)
export type DeliveryStatus = (typeof deliveryStatuses)[number]

const Attempt = Type.Object({
  id: Type.String({ description: 'The X-Webhook-ID of this attempt.' }),
  at: Timestamp,
  status_code: Nullable(Type.Integer()),
  latency_ms: Type.Integer(),
  response_body: Nullable(Type.String({ description: 'The first kilobyte of the answer.' })),
  error: Nullable(Type.String()),
})
export type Attempt = Static<typeof Attempt>

export const Delivery = Type.Object({
  id: Id,
  webhook_id: Id,
  event: Type.String(),
  status: DeliveryStatus,
  attempt_count: Type.Integer({ description: 'Attempts since the creation, including manual retries.' }),
  manual_retry_count: Type.Integer(),
  next_attempt_at: Nullable(Timestamp),
  last_status_code: Nullable(Type.Integer()),
  last_error: Nullable(Type.String()),
  attempts: Type.Array(Attempt, { description: 'The last 20 attempts, oldest first.' }),
  created_at: Timestamp,
  ended_at: Nullable(Timestamp),
})
export type Delivery = Static<typeof Delivery>

export const DeliveryWithPayload = Type.Object({
  ...Delivery.properties,
  payload: Nullable(
    Type.String({ description: 'The body as it is sent; null once it was delivered, which deletes it.' }),
  ),
})
export type DeliveryWithPayload = Static<typeof DeliveryWithPayload>

const name = (what: string) =>
  Type.String({ minLength: 1, maxLength: 63, description: `the name of a ${what}` })

export const Attachment = Type.Object({
  schema: Type.String(),
  table: Type.String(),
  events: Type.Array(Type.Enum(operations)),
})
export type Attachment = Static<typeof Attachment>

export const TestResult = Type.Object({
  success: Type.Boolean(),
  status_code: Nullable(Type.Integer()),
  response_body: Nullable(Type.String()),
  latency_ms: Type.Integer(),
  error: Nullable(Type.String()),
})
export type TestResult = Static<typeof TestResult>

const Listener = Type.Object({ id: Id, events: Type.Array(Type.String()), secret: Secret })
export type Listener = Static<typeof Listener>
const Streamed = Type.Object({
  id: Id,
  event: Type.String(),
  headers: Type.Record(Type.String(), Type.String(), {
    description: 'The headers of the delivery, with its signatures.',
  }),
  body: Type.String(),
})
export type Streamed = Static<typeof Streamed>

const byProject = Type.Object({ id: Id })
const byWebhook = Type.Object({ id: Id, wid: Id })
const byDelivery = Type.Object({ id: Id, wid: Id, delivery_id: Id })
const byListener = Type.Object({ id: Id, listener_id: Id })

export const webhooksApi = {
  purgeDeadLetters: {
    plane: 'management',
    method: 'POST',
    path: '/admin/webhooks/dlq/purge',
    scope: 'admin',
    audit: 'webhooks.dead_letters_purged',
    summary: 'Delete dead-letter deliveries that ended more than the given days ago',
    query: Type.Object({
      days: Type.Optional(
        Type.Integer({ minimum: 0, maximum: 36_500, description: 'Default: PLATFORM_DLQ_RETENTION_DAYS.' }),
      ),
    }),
    reply: Type.Object({ deleted: Type.Integer(), days: Type.Integer() }),
  },
  create: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/webhooks',
    scope: 'admin',
    audit: 'webhooks.created',
    summary: 'Create a webhook; only this answer has its secret',
    params: byProject,
    body: Type.Object(
      { url: Url, events: Events, description: Type.Optional(Description) },
      { additionalProperties: false },
    ),
    reply: WebhookWithSecret,
    status: 201,
  },
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/webhooks',
    scope: 'read',
    summary: 'List the webhooks of a project',
    params: byProject,
    query: Type.Object(pageQuery),
    reply: page('webhooks', Webhook),
  },
  openListener: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/webhooks/listeners',
    scope: 'admin',
    audit: 'webhooks.listener_opened',
    summary: 'Open a listener, which gets the events of the project until it is closed or no longer read',
    params: byProject,
    body: Type.Object(
      {
        events: Type.Optional(Events),
        tables: Type.Optional(
          Type.Array(
            Type.Object(
              { schema: Type.Optional(name('schema')), table: name('table') },
              { additionalProperties: false },
            ),
            { maxItems: 20, description: 'Tables whose changes are captured for this listener.' },
          ),
        ),
      },
      { additionalProperties: false },
    ),
    reply: Listener,
    status: 201,
  },
  readListener: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/webhooks/listeners/{listener_id}/deliveries',
    scope: 'admin',
    summary: 'Wait for deliveries of a listener; those up to `after` are forgotten',
    params: byListener,
    query: Type.Object({
      after: Type.Optional(Id),
      wait_seconds: Type.Optional(Type.Integer({ minimum: 0, maximum: 30, default: 20 })),
      limit: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 20,
          default: 20,
          description: 'Deliveries to return; 0 returns at once, and only keeps the listener open.',
        }),
      ),
    }),
    reply: Type.Object({ deliveries: Type.Array(Streamed) }),
  },
  closeListener: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/webhooks/listeners/{listener_id}',
    scope: 'admin',
    audit: 'webhooks.listener_closed',
    summary: 'Close a listener',
    params: byListener,
    reply: Empty,
    status: 204,
  },
  trigger: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/webhooks/trigger',
    scope: 'admin',
    audit: 'webhooks.event_triggered',
    summary: 'Send an event with example data to all webhooks and listeners that select it',
    params: byProject,
    body: Type.Object(
      {
        event: Type.String({ minLength: 1, maxLength: 300 }),
        record: Type.Optional(
          Type.Record(Type.String(), Type.Unknown(), { description: 'The row of a row change.' }),
        ),
      },
      { additionalProperties: false },
    ),
    reply: Type.Object({ event: Type.String(), deliveries: Type.Integer() }),
    status: 202,
  },
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/webhooks/{wid}',
    scope: 'read',
    summary: 'Read a webhook, without its secret',
    params: byWebhook,
    reply: Webhook,
  },
  update: {
    plane: 'management',
    method: 'PATCH',
    path: '/projects/{id}/webhooks/{wid}',
    scope: 'admin',
    audit: 'webhooks.updated',
    summary: 'Change a webhook; switching it off drops its waiting deliveries',
    params: byWebhook,
    body: Type.Object(
      {
        url: Type.Optional(Url),
        events: Type.Optional(Events),
        is_active: Type.Optional(Type.Boolean()),
        description: Type.Optional(Description),
      },
      { additionalProperties: false, minProperties: 1 },
    ),
    reply: Webhook,
  },
  remove: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/webhooks/{wid}',
    scope: 'admin',
    audit: 'webhooks.deleted',
    summary: 'Delete a webhook, its attachments and its deliveries',
    params: byWebhook,
    reply: Empty,
    status: 204,
  },
  rotateSecret: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/webhooks/{wid}/rotate-secret',
    scope: 'admin',
    audit: 'webhooks.secret_rotated',
    summary: 'Replace the secret; for 24 hours deliveries are signed with both secrets',
    params: byWebhook,
    reply: WebhookWithSecret,
  },
  test: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/webhooks/{wid}/test',
    scope: 'admin',
    audit: 'webhooks.tested',
    summary: 'Send a test delivery now and return the result; it waits at most 30 seconds',
    params: byWebhook,
    reply: TestResult,
  },
  listDeliveries: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/webhooks/{wid}/deliveries',
    scope: 'read',
    summary: 'List deliveries with their attempts, newest first',
    params: byWebhook,
    query: Type.Object({
      status: Type.Optional(DeliveryStatus),
      event: Type.Optional(Type.String({ maxLength: 300, description: 'The exact name of an event.' })),
      from: Type.Optional(Timestamp),
      to: Type.Optional(Timestamp),
      limit: Type.Optional(
        Type.Integer({ minimum: 0, default: 50, description: 'Deliveries to return; clamped to 100.' }),
      ),
      before: Type.Optional(Type.String({ ...Id, description: '`next_before` of the previous page.' })),
    }),
    reply: Type.Object({
      deliveries: Type.Array(Delivery),
      next_before: Nullable(Type.String({ description: 'For the next page; null after the last one.' })),
    }),
  },
  readDelivery: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/webhooks/{wid}/deliveries/{delivery_id}',
    scope: 'admin',
    summary: 'Read a delivery with its payload',
    params: byDelivery,
    reply: DeliveryWithPayload,
  },
  retry: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/webhooks/{wid}/deliveries/{delivery_id}/retry',
    scope: 'admin',
    audit: 'webhooks.delivery_retried',
    summary: 'Queue a dead-letter delivery again',
    params: byDelivery,
    reply: Delivery,
    status: 202,
  },
  attach: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/webhooks/{wid}/attach',
    scope: 'deploy',
    audit: 'webhooks.attached',
    summary: 'Send row changes of a table to the webhook; replaces an earlier attachment of the table',
    params: byWebhook,
    body: Type.Object(
      {
        table: name('table'),
        schema: Type.Optional(name('schema')),
        events: Type.Optional(
          Type.Array(Type.String({ maxLength: 20, description: 'insert, update or delete' }), {
            minItems: 1,
            maxItems: 10,
          }),
        ),
      },
      { additionalProperties: false },
    ),
    reply: Attachment,
  },
  detach: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/webhooks/{wid}/attach/{table}',
    scope: 'deploy',
    audit: 'webhooks.detached',
    summary: 'Send no more row changes of a table to the webhook; safe to repeat',
    params: Type.Object({ id: Id, wid: Id, table: name('table') }),
    query: Type.Object({ schema: Type.Optional(name('schema')) }),
    reply: Empty,
    status: 204,
  },
  listAttachments: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/webhooks/{wid}/attachments',
    scope: 'read',
    summary: 'List the tables that are attached to the webhook',
    params: byWebhook,
    query: Type.Object(pageQuery),
    reply: page('attachments', Attachment),
  },
} as const satisfies Routes
