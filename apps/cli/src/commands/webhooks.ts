// Lists, creates, changes and deletes webhooks.
import type { Webhook, WebhookWithSecret } from '@plinth/contract/webhooks.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { clean, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'
import { eventsIn, webhookIn } from '../webhooks/given.ts'

export async function list(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const webhooks = await everyPage(page =>
    platform.webhooks
      .list({ params: { id }, query: page })
      .then(({ webhooks: items, total }) => ({ items, total })),
  )
  return {
    data: { webhooks, total: webhooks.length },
    hints:
      webhooks.length === 0
        ? ['No webhooks yet: plinth webhooks create --url <url> --events <events> creates one.']
        : [],
    text: paint =>
      webhooks.length === 0
        ? ''
        : table(
            paint,
            ['ID', 'URL', 'EVENTS', 'STATE', 'CREATED'],
            webhooks.map(each => [
              each.id,
              each.url,
              firstOf(each.events),
              stateOf(each),
              minute(each.created_at),
            ]),
          ),
  }
}

const shownEvents = 3
const firstOf = (events: readonly string[]): string =>
  events.length <= shownEvents
    ? events.join(', ')
    : `${events.slice(0, shownEvents).join(', ')} and ${events.length - shownEvents} more`

function stateOf({ is_active, switched_off_at, failing_since }: Webhook): string {
  if (switched_off_at !== null) return `switched off ${minute(switched_off_at)}`
  if (!is_active) return 'off'
  return failing_since === null ? 'active' : `failing since ${minute(failing_since)}`
}

export async function show(context: Context): Promise<Answer> {
  const wid = webhookIn(context.given)
  const { platform, id } = await openProject(context)
  const webhook = await platform.webhooks.read({ params: { id, wid } })
  return { data: webhook, text: paint => webhookText(paint, webhook), hints: switchedOffHints(webhook) }
}

const switchedOffHints = ({ id, switched_off_at }: Webhook): string[] =>
  switched_off_at === null
    ? []
    : [
        `The platform switched it off after five days without a successful delivery. To switch it on: plinth webhooks update ${id} --is-active true`,
      ]

function webhookText(paint: Paint, webhook: Webhook | WebhookWithSecret): string {
  const { secret_overlap_until: overlap } = webhook
  return fields(paint, [
    ['id', webhook.id],
    ['url', webhook.url],
    ['events', webhook.events.join(', ')],
    ['description', webhook.description],
    ['state', stateOf(webhook)],
    ['created', minute(webhook.created_at)],
    ['updated', minute(webhook.updated_at)],
    ...(overlap === null ? [] : [['previous secret', `signs until ${minute(overlap)}`] as const]),
    ...('secret' in webhook ? [['secret', webhook.secret] as const] : []),
  ])
}

const secretHint =
  'The secret is shown only now. Store it where your receiver verifies the signatures of deliveries.'

export async function create(context: Context): Promise<Answer> {
  const { values } = context.given
  const { description } = values
  const events = eventsIn(values['events']!)
  const { platform, id } = await openProject(context)
  const webhook = await platform.webhooks.create({
    params: { id },
    body: { url: values['webhook-url']!, events, ...(description !== undefined && { description }) },
  })
  const needsTable = events.some(event => event === '*' || event.startsWith('db.'))
  return {
    data: webhook,
    text: paint => webhookText(paint, webhook),
    hints: [
      secretHint,
      `plinth webhooks test ${webhook.id} sends a test delivery.`,
      ...(needsTable
        ? [`Row changes need an attached table: plinth webhooks attach ${webhook.id} --table <table>`]
        : []),
    ],
  }
}

export async function update(context: Context): Promise<Answer> {
  const { values } = context.given
  const wid = webhookIn(context.given)
  const { description } = values
  const body = {
    ...(values['is-active'] !== undefined && { is_active: values['is-active'] === 'true' }),
    ...(values['webhook-url'] !== undefined && { url: values['webhook-url'] }),
    ...(values['events'] !== undefined && { events: eventsIn(values['events']) }),
    ...(description !== undefined && { description }),
  }
  if (Object.keys(body).length === 0)
    throw new Failure(
      'usage_missing_flag',
      'There is nothing to change.',
      'Give --is-active true or false, --url, --events or --description.',
    )
  const { platform, id } = await openProject(context)
  const webhook = await platform.webhooks.update({ params: { id, wid }, body })
  return {
    data: webhook,
    text: paint => webhookText(paint, webhook),
    hints: body.is_active === false ? ['Its waiting deliveries were dropped.'] : [],
  }
}

export async function rotateSecret(context: Context): Promise<Answer> {
  const wid = webhookIn(context.given)
  const { platform, id } = await openProject(context)
  const webhook = await platform.webhooks.rotateSecret({ params: { id, wid } })
  return {
    data: webhook,
    text: paint => webhookText(paint, webhook),
    hints: [
      secretHint,
      `Until ${minute(webhook.secret_overlap_until)} deliveries are signed with both secrets.`,
    ],
  }
}

export async function remove(context: Context): Promise<Answer> {
  const { given, screen } = context
  const wid = webhookIn(given)
  const isConfirmed = given.switches.has('yes')
  if (!isConfirmed && !screen.isInteractive)
    throw new Failure(
      'confirmation_missing',
      `Deleting the webhook ${wid} needs a confirmation, and there is no terminal to ask for it.`,
      'Run it again with --yes.',
    )
  const { platform, id } = await openProject(context)
  const params = { id, wid }
  if (!isConfirmed) await confirm(context, await platform.webhooks.read({ params }))
  await platform.webhooks.remove({ params })
  return { data: { project_id: id, id: wid, deleted: true }, text: () => `Deleted ${wid}.` }
}

async function confirm(context: Context, { id, url }: Webhook): Promise<void> {
  const { ask } = await import('../prompt.ts')
  context.screen.hint(
    clean(`${id} to ${url}: its attachments and all its deliveries will be deleted permanently.`),
  )
  const typed = await ask(context, 'Delete it? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', 'Nothing was deleted.', 'Answer y, or run it with --yes.')
}
