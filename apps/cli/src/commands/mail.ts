// What the local catch-all has kept: on a platform without SMTP, the place to find a sign-in link.
import type { CaughtMessage, CaughtSummary } from '@plinth/contract/email.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { connect, type Platform } from '../platform.ts'
import { clean, fields, minute, type Paint, table } from '../print.ts'
import { projectId } from '../project.ts'

export async function mail(context: Context): Promise<Answer> {
  const platform = connect(context)
  const id = await projectId(context, platform)
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
        ? ['No mail was kept. What is sent through an SMTP server is not kept here.']
        : ['--message <id>, or --message latest, shows one with its links.'],
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
  throw new Failure('message_not_found', 'No mail was kept for this project.')
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
