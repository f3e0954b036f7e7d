// Commands for webhooks.
import type { Command, Flag, Operand } from '../command.ts'

const webhook: Operand = { name: 'webhook', summary: 'the id of the webhook', isOptional: true }
const delivery: Operand = { name: 'delivery', summary: 'the id of the delivery', isOptional: true }
const webhookFlag: Flag = { name: 'webhook', value: 'id', summary: 'The webhook, instead of the argument' }
const deliveryFlag: Flag = { name: 'delivery', value: 'id', summary: 'The delivery, instead of the argument' }
const idFlag: Flag = { name: 'id', value: 'id', summary: 'The same as --webhook' }
const byWebhook = [webhookFlag, idFlag]

const url = (summary: string): Flag => ({
  name: 'url',
  storedAs: 'webhook-url',
  value: 'url',
  summary: `${summary}; the URL of the platform comes before the command, or from PLATFORM_URL`,
})
const events = (summary: string): Flag => ({ name: 'events', value: 'events', summary, isRepeatable: true })
const selected =
  'separated by commas: user.created, db.public.todos.insert, db.public.todos.* and the like, or *'
const description: Flag = { name: 'description', value: 'text', summary: 'A note for people' }
const schema: Flag = { name: 'schema', value: 'name', summary: 'The schema of the table; default public' }

const settings: readonly Command[] = [
  {
    path: 'webhooks list',
    summary: 'List the webhooks of a project',
    load: () => import('../commands/webhooks.ts').then(module => module.list),
  },
  {
    path: 'webhooks show',
    summary: 'Show one webhook',
    operands: [webhook],
    flags: byWebhook,
    load: () => import('../commands/webhooks.ts').then(module => module.show),
  },
  {
    path: 'webhooks create',
    summary: 'Send events of a project to a URL; prints the signing secret, which is shown only then',
    flags: [
      { ...url('The URL that receives the events'), isRequired: true },
      { ...events(`The events, ${selected}`), isRequired: true },
      description,
    ],
    examples: [
      'plinth webhooks create --url https://example.com/hooks --events user.created,user.deleted',
      "plinth webhooks create --url https://example.com/hooks --events 'db.public.todos.*' --description Search",
    ],
    load: () => import('../commands/webhooks.ts').then(module => module.create),
  },
  {
    path: 'webhooks update',
    summary: 'Switch a webhook on or off, or change its URL, events or description',
    operands: [webhook],
    flags: [
      idFlag,
      webhookFlag,
      {
        name: 'is-active',
        value: 'true or false',
        choices: ['true', 'false'],
        summary: 'Whether it receives events; switching it off drops its waiting deliveries',
      },
      url('Another URL'),
      events(`Other events, ${selected}`),
      description,
    ],
    examples: ['plinth webhooks update --id 0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d --is-active false'],
    load: () => import('../commands/webhooks.ts').then(module => module.update),
  },
  {
    path: 'webhooks rotate-secret',
    summary: 'Replace the signing secret; for 24 hours deliveries are signed with both',
    operands: [webhook],
    flags: byWebhook,
    load: () => import('../commands/webhooks.ts').then(module => module.rotateSecret),
  },
  {
    path: 'webhooks delete',
    summary: 'Delete a webhook with its attachments and deliveries',
    operands: [webhook],
    flags: byWebhook,
    load: () => import('../commands/webhooks.ts').then(module => module.remove),
  },
]

const deliveries: readonly Command[] = [
  {
    path: 'webhooks test',
    summary: 'Send a test delivery now and print the answer; ends with 1 if it fails',
    operands: [webhook],
    flags: byWebhook,
    load: () => import('../commands/webhooks-deliveries.ts').then(module => module.test),
  },
  {
    path: 'webhooks deliveries',
    summary: 'List the deliveries of a webhook, newest first',
    operands: [webhook],
    flags: [
      ...byWebhook,
      {
        name: 'status',
        value: 'status',
        choices: ['pending', 'delivered', 'dead_letter'],
        summary: 'Only deliveries that are pending, delivered or dead_letter',
      },
      { name: 'event', value: 'event', summary: 'Only deliveries of this event' },
      { name: 'from', value: 'time', summary: 'Created at this time or later, such as 2030-01-31T09:30:00Z' },
      { name: 'to', value: 'time', summary: 'Created before this time' },
      { name: 'limit', value: 'number', summary: 'How many to show; default 50' },
      { name: 'before', value: 'delivery', summary: 'Only older ones than the delivery with this id' },
    ],
    examples: [
      'plinth webhooks deliveries 0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d --status dead_letter --limit 10',
    ],
    load: () => import('../commands/webhooks-deliveries.ts').then(module => module.list),
  },
  {
    path: 'webhooks delivery',
    summary: 'Show one delivery with its attempts, and its payload until it is delivered',
    operands: [webhook, delivery],
    flags: [webhookFlag, deliveryFlag],
    load: () => import('../commands/webhooks-deliveries.ts').then(module => module.show),
  },
  {
    path: 'webhooks retry',
    summary: 'Queue a dead-letter delivery again',
    operands: [webhook, delivery],
    flags: [webhookFlag, deliveryFlag],
    load: () => import('../commands/webhooks-deliveries.ts').then(module => module.retry),
  },
  {
    path: 'webhooks dlq purge',
    summary: 'Delete old dead-letter deliveries of all projects',
    flags: [
      {
        name: 'days',
        value: 'days',
        summary:
          'Keep those that ended in the last days; default is the setting of the platform, 0 keeps none',
      },
    ],
    load: () => import('../commands/webhooks-deliveries.ts').then(module => module.purge),
  },
]

const attachments: readonly Command[] = [
  {
    path: 'webhooks attach',
    summary: 'Send row changes of a table to a webhook; replaces an earlier attachment of the table',
    operands: [webhook],
    flags: [
      webhookFlag,
      { name: 'table', value: 'name', summary: 'the name of the table', isRequired: true },
      schema,
      events('insert, update, delete, separated by commas; default all three'),
    ],
    examples: [
      'plinth webhooks attach --webhook 0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d --table todos --events insert,update',
    ],
    load: () => import('../commands/webhooks-attachments.ts').then(module => module.attach),
  },
  {
    path: 'webhooks detach',
    summary: 'Send no more row changes of a table to a webhook',
    operands: [webhook],
    flags: [
      webhookFlag,
      { name: 'table', value: 'name', summary: 'the name of the table', isRequired: true },
      schema,
    ],
    load: () => import('../commands/webhooks-attachments.ts').then(module => module.detach),
  },
  {
    path: 'webhooks attachments',
    summary: 'List the tables that are attached to a webhook',
    operands: [webhook],
    flags: byWebhook,
    load: () => import('../commands/webhooks-attachments.ts').then(module => module.list),
  },
]

const local: readonly Command[] = [
  {
    path: 'webhooks listen',
    summary: 'Forward events of a project to a server on this machine until Ctrl-C',
    flags: [
      {
        name: 'forward-to',
        value: 'url',
        summary: 'the URL that receives the events, such as http://localhost:3000/hooks',
        isRequired: true,
      },
      events(`The events, ${selected}; default *`),
      {
        name: 'table',
        value: 'table or schema.table',
        summary: 'A table whose changes are captured meanwhile; may be given several times',
        isRepeatable: true,
      },
    ],
    examples: [
      'plinth webhooks listen --forward-to http://localhost:3000/hooks',
      'plinth webhooks listen --forward-to localhost:3000/hooks --events user.created --table public.todos',
    ],
    load: () => import('../commands/webhooks-listen.ts').then(module => module.listen),
  },
  {
    path: 'webhooks trigger',
    summary: 'Send an event with example data to all webhooks and listeners that select it',
    operands: [{ name: 'event', summary: 'such as user.created or db.public.todos.insert' }],
    flags: [
      {
        name: 'record',
        value: 'json',
        summary: 'The row of a row change, @<file> for that of a file, or @- for standard input',
      },
    ],
    examples: [
      'plinth webhooks trigger user.created',
      `plinth webhooks trigger db.public.todos.insert --record '{"id":1,"title":"Test"}'`,
    ],
    load: () => import('../commands/webhooks-trigger.ts').then(module => module.trigger),
  },
]

export const webhooksCommands: readonly Command[] = [...settings, ...attachments, ...deliveries, ...local]
