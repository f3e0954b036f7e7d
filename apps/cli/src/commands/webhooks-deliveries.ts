// Reads, tests and retries deliveries of webhooks.
import type { Attempt, Delivery, DeliveryStatus, DeliveryWithPayload } from '@plinth/contract/webhooks.ts'
import type { Given } from '../arguments.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { connect, type Platform } from '../platform.ts'
import { clean, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'
import { checkedId, deliveryIn, webhookIn } from '../webhooks/given.ts'

const defaultLimit = 50
const pageSize = 100

export async function test(context: Context): Promise<Answer> {
  const wid = webhookIn(context.given)
  const { platform, id } = await openProject(context)
  const result = await platform.webhooks.test({ params: { id, wid } })
  const { success, status_code, latency_ms, error, response_body } = result
  const outcome = status_code === null ? (error ?? 'no answer') : `status ${status_code}`
  return {
    data: result,
    isFailure: !success,
    text: paint => {
      const head = success ? paint.green('Delivered') : paint.red('Failed')
      const body = response_body === null ? '' : `\n${clean(response_body).trimEnd()}`
      return `${head}: ${clean(outcome.replace(/\.$/, ''))} in ${latency_ms} ms.${body}`
    },
    hints: success ? [] : ['The receiver must answer with a status from 200 to 299 within 30 seconds.'],
  }
}

interface Query {
  status?: DeliveryStatus
  event?: string
  from?: string
  to?: string
}

export async function list(context: Context): Promise<Answer> {
  const { given } = context
  const wid = webhookIn(given)
  const limit = limitIn(given.values['limit'])
  const query = queryIn(given)
  const before = given.values['before'] && checkedId(given.values['before'], 'delivery', beforeHint)
  const { platform, id } = await openProject(context)
  const found = await newest(platform, { id, wid }, query, limit, before)
  return {
    data: found,
    hints: listHints(found.deliveries.length, found.next_before, wid),
    text: paint =>
      found.deliveries.length === 0
        ? ''
        : table(
            paint,
            ['ID', 'EVENT', 'STATUS', 'ATTEMPTS', 'LAST RESULT', 'NEXT ATTEMPT', 'CREATED'],
            found.deliveries.map(deliveryRow),
          ),
  }
}
const beforeHint = '--before takes next_before of the previous page.'

function limitIn(text: string | undefined): number {
  if (text === undefined) return defaultLimit
  if (/^[1-9]\d{0,6}$/.test(text)) return Number(text)
  throw new Failure('usage_invalid_value', `--limit cannot be "${text}": it must be a number of at least 1.`)
}

function queryIn({ values }: Given): Query {
  const { status, event } = values
  const [from, to] = ['from', 'to'].map(flag => timeIn(flag, values[flag]))
  return {
    ...(status && { status: status as DeliveryStatus }),
    ...(event && { event }),
    ...(from && { from }),
    ...(to && { to }),
  }
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)$/i
function timeIn(flag: string, text: string | undefined): string | undefined {
  if (text === undefined) return undefined
  const time = rfc3339.test(text) || /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(text) : Number.NaN
  if (!Number.isNaN(time)) return new Date(time).toISOString()
  throw new Failure(
    'usage_invalid_value',
    `--${flag} cannot be "${text}".`,
    'Use a day such as 2030-01-31, which begins at midnight UTC, or a time such as 2030-01-31T09:30:00Z.',
  )
}

async function newest(
  platform: Platform,
  params: { id: string; wid: string },
  query: Query,
  limit: number,
  before: string | undefined,
): Promise<{ deliveries: Delivery[]; next_before: string | null }> {
  const deliveries: Delivery[] = []
  let next = before
  for (;;) {
    const page = await platform.webhooks.listDeliveries({
      params,
      query: {
        ...query,
        limit: Math.min(limit - deliveries.length, pageSize),
        ...(next && { before: next }),
      },
    })
    deliveries.push(...page.deliveries)
    if (page.next_before === null || deliveries.length >= limit)
      return { deliveries, next_before: page.next_before }
    next = page.next_before
  }
}

function listHints(shown: number, nextBefore: string | null, wid: string): string[] {
  if (nextBefore !== null) return [`There are older ones: --limit shows more, --before ${nextBefore} others.`]
  if (shown > 0) return []
  return [
    `No deliveries. plinth webhooks test ${wid} sends a test; records are deleted 7 days after a delivery.`,
  ]
}

const deliveryRow = (each: Delivery) => [
  each.id,
  each.event,
  each.status,
  each.attempt_count,
  lastResult(each),
  minute(each.next_attempt_at),
  minute(each.created_at),
]

const lastResult = ({ last_status_code, last_error }: Delivery): string | null =>
  last_status_code === null ? last_error : String(last_status_code)

export async function show(context: Context): Promise<Answer> {
  const [wid, delivery_id] = [webhookIn(context.given), deliveryIn(context.given)]
  const { platform, id } = await openProject(context)
  const delivery = await platform.webhooks.readDelivery({ params: { id, wid, delivery_id } })
  return {
    data: delivery,
    text: paint => deliveryText(paint, delivery),
    hints:
      delivery.status === 'dead_letter'
        ? [`plinth webhooks retry ${wid} ${delivery_id} queues it again.`]
        : delivery.payload === null
          ? ['The payload was deleted with the successful delivery.']
          : [],
  }
}

function deliveryText(paint: Paint, delivery: DeliveryWithPayload): string {
  const { attempts, attempt_count, manual_retry_count, payload } = delivery
  const parts = [
    fields(paint, [
      ['id', delivery.id],
      ['webhook', delivery.webhook_id],
      ['event', delivery.event],
      ['status', delivery.status],
      [
        'attempts',
        manual_retry_count === 0 ? attempt_count : `${attempt_count}, ${manual_retry_count} manual`,
      ],
      ['next attempt', minute(delivery.next_attempt_at)],
      ['created', minute(delivery.created_at)],
      ['ended', minute(delivery.ended_at)],
    ]),
    ...(attempts.length === 0
      ? []
      : [table(paint, ['AT', 'STATUS', 'MS', 'RESULT', 'X-WEBHOOK-ID'], attempts.map(attemptRow))]),
    ...(payload === null ? [] : [clean(payload)]),
  ]
  return parts.join('\n\n')
}

const attemptRow = ({ at, status_code, latency_ms, error, response_body, id }: Attempt) => [
  at,
  status_code,
  latency_ms,
  shortened(status_code === null ? error : response_body),
  id,
]

const shownLength = 60
const shortened = (text: string | null) =>
  text === null || text.length <= shownLength ? text : `${text.slice(0, shownLength)}…`

export async function retry(context: Context): Promise<Answer> {
  const [wid, delivery_id] = [webhookIn(context.given), deliveryIn(context.given)]
  const { platform, id } = await openProject(context)
  const delivery = await platform.webhooks.retry({ params: { id, wid, delivery_id } })
  return {
    data: delivery,
    text: () => `Queued ${delivery_id} again.`,
    hints: [`plinth webhooks delivery ${wid} ${delivery_id} shows the result.`],
  }
}

export async function purge(context: Context): Promise<Answer> {
  const days = daysIn(context.given.values['days'])
  const query = days === undefined ? {} : { days }
  const purged = await connect(context).webhooks.purgeDeadLetters({ query })
  const what = purged.deleted === 1 ? 'delivery' : 'deliveries'
  return {
    data: purged,
    text: () =>
      `Deleted ${purged.deleted} dead-letter ${what} that ended more than ${purged.days} days ago, of all projects.`,
  }
}

function daysIn(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^\d{1,5}$/.test(text)) return Number(text)
  throw new Failure(
    'usage_invalid_value',
    `--days cannot be "${text}": it must be a number of days, 0 or more.`,
  )
}
