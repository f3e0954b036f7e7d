// Commands for migrations and generated types.
import type { Command, Flag } from '../command.ts'

const path: Flag = {
  name: 'path',
  value: 'folder',
  summary: 'The folder of migrations; default supabase/migrations or migrations',
}

export const databaseCommands: readonly Command[] = [
  {
    path: 'db push',
    summary: 'Show which migrations of this directory would be applied; --apply applies them',
    flags: [{ name: 'apply', summary: 'Apply them' }, path],
    examples: ['plinth db push', 'plinth db push --apply'],
    load: () => import('../commands/db-push.ts').then(module => module.push),
  },
  {
    path: 'db pull',
    summary: 'Write migrations that only the project has, and a migration for what was created without one',
    flags: [{ name: 'data', summary: 'Also write every row into seed.sql' }, path],
    examples: ['plinth db pull', 'plinth db pull --data --yes'],
    load: () => import('../commands/db-pull.ts').then(module => module.pull),
  },
  {
    path: 'db reset',
    summary: 'Drop everything in the project’s schemas and apply the migrations again',
    flags: [{ name: 'empty', summary: 'Apply nothing afterwards' }, path],
    examples: ['plinth db reset --yes'],
    load: () => import('../commands/db-reset.ts').then(module => module.reset),
  },
  {
    path: 'migrations list',
    summary: 'List the migrations of the project and of this directory',
    flags: [path],
    load: () => import('../commands/migrations-list.ts').then(module => module.list),
  },
  {
    path: 'migrations apply',
    summary: 'Apply the migrations of this directory that are not applied yet',
    flags: [path],
    load: () => import('../commands/db-push.ts').then(module => module.apply),
  },
]

const schemas: Flag = {
  name: 'schema',
  value: 'name',
  summary: 'Schemas, separated by commas; default the schemas the API serves',
}
const check: Flag = { name: 'check', value: 'file', summary: 'Only check whether this file is up to date' }

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
  {
    path: 'gen graphql-schema',
    summary: 'Print the GraphQL schema that a role sees',
    flags: [
      { name: 'role', value: 'role', summary: 'anon, authenticated or service_role; default authenticated' },
      { name: 'schema', value: 'name', summary: 'An exposed schema; default the first one' },
      check,
    ],
    examples: ['plinth gen graphql-schema > schema.graphql'],
    printsText: true,
    load: () => import('../commands/gen.ts').then(module => module.graphqlSchema),
  },
]
