// Commands about migrations and what is generated from a project's schema.
import type { Command, Flag } from '../command.ts'

const path: Flag = {
  name: 'path',
  value: 'folder',
  summary: 'The folder of migrations; supabase/migrations or migrations when left out',
}

export const databaseCommands: readonly Command[] = [
  {
    path: 'db push',
    summary: 'Show which migrations of this directory would be applied; apply them with --apply',
    flags: [{ name: 'apply', summary: 'Apply them' }, path],
    examples: ['plinth db push', 'plinth db push --apply'],
    load: () => import('../commands/db.ts').then(module => module.push),
  },
  {
    path: 'db pull',
    summary: 'Write migrations that are only on the project, and what was made there without one',
    flags: [{ name: 'data', summary: 'Also write every row into seed.sql' }, path],
    examples: ['plinth db pull', 'plinth db pull --data --yes'],
    load: () => import('../commands/db-pull.ts').then(module => module.pull),
  },
  {
    path: 'db reset',
    summary: 'Drop everything in the project’s schemas and apply the migrations anew',
    flags: [{ name: 'empty', summary: 'Apply nothing afterwards' }, path],
    examples: ['plinth db reset --yes'],
    load: () => import('../commands/db.ts').then(module => module.reset),
  },
  {
    path: 'migrations list',
    summary: 'List migrations: applied, in this directory, or both',
    flags: [path],
    load: () => import('../commands/db.ts').then(module => module.list),
  },
  {
    path: 'migrations apply',
    summary: 'Apply the migrations of this directory that are not applied yet',
    flags: [path],
    load: () => import('../commands/db.ts').then(module => module.apply),
  },
]

const schemas: Flag = {
  name: 'schema',
  value: 'name',
  summary: 'Schemas, separated by commas; those the API serves when left out',
}
const check: Flag = { name: 'check', value: 'file', summary: 'Only see whether this file is up to date' }

export const generatorCommands: readonly Command[] = [
  {
    path: 'gen types typescript',
    summary: 'Print the type Database for createClient<Database>',
    flags: [schemas, check],
    examples: ['plinth gen types typescript > database.types.ts'],
    printsText: true,
    load: () => import('../commands/gen.ts').then(module => module.typescript),
  },
  {
    path: 'gen types drizzle',
    summary: 'Print the schema for Drizzle',
    flags: [schemas, check],
    examples: ['plinth gen types drizzle > schema.ts'],
    printsText: true,
    load: () => import('../commands/gen.ts').then(module => module.drizzle),
  },
]
