// Commands about what a project tells as it happens.
import type { Command, Flag } from '../command.ts'

const bool = (name: string, summary: string): Flag => ({
  name,
  value: 'true or false',
  choices: ['true', 'false'],
  summary,
})

export const realtimeCommands: readonly Command[] = [
  {
    path: 'realtime subscribe',
    summary:
      'Print changes of a table, and messages of a channel, until Ctrl-C; one JSON line each when piped',
    flags: [
      {
        name: 'channel',
        value: 'channel',
        summary:
          'a table, schema:table, either with a filter as in public:todos:id=eq.1, or realtime:<channel>',
        isRequired: true,
      },
      {
        name: 'token',
        value: 'credential',
        summary:
          'The anon key, the service_role key or a user’s JWT of the project (PLATFORM_REALTIME_TOKEN)',
      },
      { name: 'private', summary: 'The private channel of that name' },
    ],
    examples: [
      'plinth realtime subscribe --channel todos',
      'plinth realtime subscribe --channel realtime:room-1 --output json | jq .payload',
    ],
    load: () => import('../commands/realtime-subscribe.ts').then(module => module.subscribe),
  },
  {
    path: 'realtime tables',
    summary: 'List the tables, and which of them send changes to whom',
    load: () => import('../commands/realtime.ts').then(module => module.tables),
  },
  {
    path: 'realtime set-table',
    summary: 'Switch the changes of a table off or on, or open them to all who may read it',
    operands: [{ name: 'table', summary: 'the name of a table in public' }],
    flags: [
      bool('cdc', 'Whether its changes are sent'),
      bool('rls-public', 'Whether they are sent to all who may read it while it has no row-level security'),
    ],
    examples: [
      'plinth realtime set-table audit_log --cdc false',
      'plinth realtime set-table prices --rls-public true',
    ],
    load: () => import('../commands/realtime.ts').then(module => module.setTable),
  },
]
