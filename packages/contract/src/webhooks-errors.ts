import type { ErrorMeaning } from './error-meaning.ts'

export const webhooksErrors = {
  invalid_webhook_url: {
    status: 400,
    meaning: 'Webhooks: the URL cannot be called, or its host has an address that is not public.',
  },
  invalid_webhook_event: {
    status: 400,
    meaning: 'Webhooks: the event is unknown; the message lists the possible ones.',
  },
  table_not_attachable: {
    status: 400,
    meaning: 'Webhooks: there is no such table, or its changes cannot be captured; the message says why.',
  },
  webhook_not_found: { status: 404, meaning: 'The project has no webhook or listener with this id.' },
  delivery_not_found: { status: 404, meaning: 'The webhook has no delivery with this id.' },
  delivery_not_dead: {
    status: 409,
    meaning: 'Webhooks: only a delivery with the status dead_letter can be retried.',
  },
  webhook_inactive: { status: 409, meaning: 'The webhook is switched off; switch it on with PATCH first.' },
  too_many_webhooks: {
    status: 429,
    meaning: 'The project has as many webhooks as its quota `max_webhooks` allows, or 20 open listeners.',
  },
  table_locked: {
    status: 503,
    meaning: 'Webhooks: another session has locked the table, so it cannot be attached or detached now.',
  },
} as const satisfies Record<string, ErrorMeaning>
