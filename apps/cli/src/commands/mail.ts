// Locally captured mail. Without an SMTP server, sign-in links are found here.
import type { CaughtMessage, CaughtSummary } from '@plinth/contract/email.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import type { Platform } from '../platform.ts'
import { clean, fields, minute, type Paint, table } from '../print.ts'
import { openProject } from '../project.ts'

export async function mail(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const named = context.given.values['message']
  if (named !== undefined) return showMessage(platform, id, named)
  const messages = await everyPage(async query => {
    const page = await platform.email.listCaught({ params: { id }, query })
    return { items: page.messages, total: page.total }
  })
  return {
    data: { messages, total: messages.length },
    text: paint => (messages.length === 0 ? '' : listText(paint, messages)),
    hints:
      messages.length === 0
        ? ['No mail is captured. Mail that an SMTP server sends is not captured.']
        : ['--message <id> or --message latest shows one message with its links.'],
  }
}

async function showMessage(platform: Platform, id: string, named: string): Promise<Answer> {
  const message = await platform.email.readCaught({
    params: { id, message_id: named === 'latest' ? await latest(platform, id) : named },
  })
  return { data: message, text: paint => messageText(paint, message) }
}

async function latest(platform: Platform, id: string): Promise<string> {
  const { messages } = await platform.email.listCaught({ params: { id }, query: { limit: 1 } })
  if (messages[0]) return messages[0].id
  throw new Failure('message_not_found', 'No mail is captured for this project.')
}

const listText = (paint: Paint, messages: readonly CaughtSummary[]) =>
  table(
    paint,
    ['ID', 'AT', 'TO', 'TEMPLATE', 'SUBJECT'],
    messages.map(each => [each.id, minute(each.created_at), each.to, each.template, each.subject]),
  )

function messageText(paint: Paint, message: CaughtMessage): string {
  const head = fields(paint, [
    ['to', message.to],
    ['subject', message.subject],
    ['template', message.template],
    ['at', minute(message.created_at)],
  ])
  return `${head}\n\n${clean(message.body_text || message.body_html).trimEnd()}`
}
