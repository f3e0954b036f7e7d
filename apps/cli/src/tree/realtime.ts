// Commands for realtime channels and row changes.
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
      'Print changes of a table and messages of a channel until Ctrl-C; into a pipe as one line of JSON each',
    flags: [
      {
        name: 'channel',
        value: 'channel',
        summary:
          'a table or schema:table, with an optional filter such as public:todos:id=eq.1, or realtime:<channel>',
        isRequired: true,
      },
      {
        name: 'token',
        value: 'credential',
        summary:
          'The anon key, the service_role key or a user’s JWT of the project (PLATFORM_REALTIME_TOKEN)',
      },
      { name: 'private', summary: 'Join the private channel of that name' },
    ],
    examples: [
      'plinth realtime subscribe --channel todos',
      'plinth realtime subscribe --channel realtime:room-1 --output json | jq .payload',
    ],
    load: () => import('../commands/realtime-subscribe.ts').then(module => module.subscribe),
  },
  {
    path: 'realtime tables',
    summary: 'List tables and who receives their changes',
    load: () => import('../commands/realtime.ts').then(module => module.tables),
  },
  {
    path: 'realtime set-table',
    summary: 'Turn changes of a table on or off, or send them to every role that may read it',
    operands: [{ name: 'table', summary: 'the name of a table in public' }],
    flags: [
      bool('cdc', 'Whether the table emits changes'),
      bool(
        'rls-public',
        'Whether every role that may read the table receives them while row-level security is off',
      ),
    ],
    examples: [
      'plinth realtime set-table audit_log --cdc false',
      'plinth realtime set-table prices --rls-public true',
    ],
    load: () => import('../commands/realtime.ts').then(module => module.setTable),
  },
]
