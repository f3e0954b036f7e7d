// Commands for branches.
import type { Command, Flag, Operand } from '../command.ts'

const slug: Operand = { name: 'slug', summary: 'the slug of the branch, as in plinth branch list' }
const noWait: Flag = { name: 'no-wait', summary: 'Return at once, before it has ended' }

export const branchesCommands: readonly Command[] = [
  {
    path: 'branch create',
    summary: 'Create an isolated copy of the project, with its own keys; ends with 1 if it fails',
    operands: [{ name: 'name', summary: 'the name, from which the slug is made' }],
    flags: [
      { name: 'schema-only', summary: 'Without rows, users and files' },
      {
        name: 'expires',
        value: 'duration or time',
        summary: 'Delete it then, such as 30m (minutes), 12h, 7d or 2030-01-31T00:00:00Z',
      },
      noWait,
    ],
    examples: ['plinth branch create new-checkout --expires 7d', 'plinth branch create empty --schema-only'],
    load: () => import('../commands/branches.ts').then(module => module.create),
  },
  {
    path: 'branch list',
    summary: 'List the branches of a project, newest first',
    load: () => import('../commands/branches.ts').then(module => module.list),
  },
  {
    path: 'branch delete',
    summary: 'Delete a branch with its database, users and files',
    operands: [slug],
    examples: ['plinth branch delete new-checkout'],
    load: () => import('../commands/branches.ts').then(module => module.remove),
  },
  {
    path: 'branch diff',
    summary: 'Print the migration that gives the project the schema of the branch, for plinth db push',
    operands: [slug],
    printsText: true,
    examples: ['plinth branch diff new-checkout > supabase/migrations/20300131120000_new_checkout.sql'],
    load: () => import('../commands/branches.ts').then(module => module.diff),
  },
  {
    path: 'branch reset',
    summary: 'Give the branch the present state of the project; its own changes are lost',
    operands: [slug],
    flags: [noWait],
    examples: ['plinth branch reset new-checkout --yes'],
    load: () => import('../commands/branches.ts').then(module => module.reset),
  },
]
