// Attaches tables to webhooks, whose row changes are sent then.
import { ReplyError } from '@plinth/contract/client.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { everyPage } from '../page.ts'
import { clean, table } from '../print.ts'
import { openProject } from '../project.ts'
import { eventsIn, tableIn, webhookIn } from '../webhooks/given.ts'

export async function attach(context: Context): Promise<Answer> {
  const { values } = context.given
  const wid = webhookIn(context.given)
  const named = { table: values['table']!, ...(values['schema'] && { schema: values['schema'] }) }
  const events = values['events'] === undefined ? undefined : eventsIn(values['events'])
  const { platform, id } = await openProject(context)
  try {
    const attached = await platform.webhooks.attach({
      params: { id, wid },
      body: { ...named, ...(events && { events }) },
    })
    const operations = attached.events.map(event => event.toLowerCase()).join(', ')
    return {
      data: { webhook_id: wid, ...attached },
      text: () => clean(`${attached.schema}.${attached.table} is attached to ${wid}: ${operations}.`),
      hints: ['The webhook gets those changes that its events select.'],
    }
  } catch (error) {
    const isQualified = values['schema'] === undefined && named.table.includes('.')
    if (!isQualified || !(error instanceof ReplyError) || error.code !== 'table_not_attachable') throw error
    const { schema, table: name } = tableIn(named.table)
    throw new Failure(
      error.code,
      error.message,
      `Name the schema with its own flag: --schema ${schema} --table ${name}`,
      error,
    )
  }
}

export async function detach(context: Context): Promise<Answer> {
  const { values } = context.given
  const wid = webhookIn(context.given)
  const { schema = 'public' } = values
  const name = values['table']!
  const { platform, id } = await openProject(context)
  await platform.webhooks.detach({ params: { id, wid, table: name }, query: { schema } })
  return {
    data: { webhook_id: wid, schema, table: name, detached: true },
    text: () => clean(`${schema}.${name} is not attached to ${wid} any more.`),
  }
}

export async function list(context: Context): Promise<Answer> {
  const wid = webhookIn(context.given)
  const { platform, id } = await openProject(context)
  const attachments = await everyPage(query =>
    platform.webhooks
      .listAttachments({ params: { id, wid }, query })
      .then(({ attachments: items, total }) => ({ items, total })),
  )
  return {
    data: { attachments, total: attachments.length },
    hints:
      attachments.length === 0
        ? [`No tables are attached: plinth webhooks attach ${wid} --table <table> attaches one.`]
        : [],
    text: paint =>
      attachments.length === 0
        ? ''
        : table(
            paint,
            ['SCHEMA', 'TABLE', 'EVENTS'],
            attachments.map(each => [each.schema, each.table, each.events.join(', ').toLowerCase()]),
          ),
  }
}
