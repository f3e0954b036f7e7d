// The command tree as data: parsing, help, "did you mean" and completion all come from here, and a command's
// code is loaded only when it is called.
import type { Flag, Tree } from './command.ts'
import { authCommands } from './tree/auth.ts'
import { databaseCommands, generatorCommands } from './tree/database.ts'
import { directoryCommands } from './tree/directory.ts'
import { machineCommands } from './tree/machine.ts'
import { platformCommands } from './tree/platform.ts'
import { realtimeCommands } from './tree/realtime.ts'
import { rlsCommands, schemaCommands } from './tree/schema.ts'
import { storageCommands } from './tree/storage.ts'

const flags: readonly Flag[] = [
  { name: 'url', value: 'url', summary: 'The platform to talk to (PLATFORM_URL)' },
  { name: 'env', value: 'name', summary: 'The platform of that name in plinth.json' },
  { name: 'project', value: 'id or slug', summary: 'The project meant (PLATFORM_PROJECT)' },
  {
    name: 'output',
    short: 'o',
    value: 'format',
    choices: ['text', 'json', 'env'],
    summary: 'text, json, or env for status (PLATFORM_OUTPUT); json when piped',
  },
  { name: 'no-color', summary: 'No colours (NO_COLOR)' },
  { name: 'debug', summary: 'Show each request and where an error came from' },
  { name: 'yes', short: 'y', summary: 'Do not ask for confirmation' },
  { name: 'help', short: 'h', summary: 'Describe a command' },
  { name: 'version', short: 'V', summary: 'Print the version' },
]

export const tree: Tree = {
  commands: [
    ...machineCommands,
    ...platformCommands,
    ...schemaCommands,
    ...rlsCommands,
    ...databaseCommands,
    ...generatorCommands,
    ...storageCommands,
    ...realtimeCommands,
    ...authCommands,
    ...directoryCommands,
  ],
  flags,
  aliases: new Map([
    ['project', 'projects'],
    ['tokens', 'token'],
    ['secret', 'secrets'],
    ['migration', 'migrations'],
  ]),
}

/** What the first words of the tree are about, in the order of the help. */
export const sections: readonly [title: string, names: readonly string[]][] = [
  ['Platform on this machine', ['start', 'ps', 'restart', 'stop', 'down', 'bootstrap']],
  ['Any platform', ['status', 'health', 'projects', 'secrets', 'token', 'audit']],
  ['Tables and rows of a project', ['schema', 'rls', 'db', 'migrations', 'gen']],
  ['Files of a project', ['storage']],
  ['What happens in a project', ['realtime']],
  ['People of a project', ['auth']],
  ['This directory', ['config', 'link', 'completion']],
]

/** What the groups among them are for. */
export const groups: Readonly<Record<string, string>> = {
  projects: 'Create, list, suspend, delete projects; show their keys',
  schema: 'Tables, columns and extensions',
  rls: 'Who sees which rows: switches, policies, tests',
  db: 'Push migrations to a project, pull its schema, begin anew',
  migrations: 'List and apply the migrations of this directory',
  auth: 'Users of a project and their sessions; who works on it',
  gen: 'Types for applications, from the schema as it is',
  realtime: 'Watch changes and messages as they come; which tables send changes',
  storage: 'Buckets and files: list, copy, remove',
  secrets: 'Rotate the JWT secret or the keys of a project',
  token: 'Mint, list and revoke platform tokens',
  audit: 'Keep the audit log short',
  config: 'Read and write what this directory is linked to',
}
