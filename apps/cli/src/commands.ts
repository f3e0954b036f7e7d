// The command tree as data. Parsing, help, suggestions and completion read it; the code of a command is loaded only
// when it runs.
import type { Flag, Tree } from './command.ts'
import { authCommands } from './tree/auth.ts'
import { backupsCommands } from './tree/backups.ts'
import { branchesCommands } from './tree/branches.ts'
import { databaseCommands, generatorCommands } from './tree/database.ts'
import { directoryCommands } from './tree/directory.ts'
import { functionsCommands } from './tree/functions.ts'
import { localPlatformCommands } from './tree/local-platform.ts'
import { pitrCommands } from './tree/pitr.ts'
import { platformCommands } from './tree/platform.ts'
import { realtimeCommands } from './tree/realtime.ts'
import { rlsCommands, schemaCommands } from './tree/schema.ts'
import { storageCommands } from './tree/storage.ts'
import { webhooksCommands } from './tree/webhooks.ts'

const flags: readonly Flag[] = [
  { name: 'url', value: 'url', summary: 'The URL of the platform (PLATFORM_URL)' },
  { name: 'env', value: 'name', summary: 'The environment of that name in plinth.json' },
  { name: 'project', value: 'id or slug', summary: 'The project (PLATFORM_PROJECT)' },
  {
    name: 'output',
    short: 'o',
    value: 'format',
    choices: ['text', 'json', 'env'],
    summary: 'text, json, or env for status (PLATFORM_OUTPUT); default json into a pipe',
  },
  { name: 'no-color', summary: 'No colours (NO_COLOR)' },
  { name: 'debug', summary: 'Show every request and the cause of an error' },
  { name: 'yes', short: 'y', summary: 'Do not ask for confirmation' },
  { name: 'help', short: 'h', summary: 'Describe a command' },
  { name: 'version', short: 'V', summary: 'Print the version' },
]

export const tree: Tree = {
  commands: [
    ...localPlatformCommands,
    ...platformCommands,
    ...schemaCommands,
    ...rlsCommands,
    ...databaseCommands,
    ...generatorCommands,
    ...storageCommands,
    ...realtimeCommands,
    ...functionsCommands,
    ...webhooksCommands,
    ...authCommands,
    ...backupsCommands,
    ...pitrCommands,
    ...branchesCommands,
    ...directoryCommands,
  ],
  flags,
  aliases: new Map([
    ['project', 'projects'],
    ['tokens', 'token'],
    ['secret', 'secrets'],
    ['function', 'functions'],
    ['webhook', 'webhooks'],
    ['migration', 'migrations'],
    ['backups', 'backup'],
    ['branches', 'branch'],
  ]),
}

/** The groups and commands by topic, in the order of the help. */
export const sections: readonly [title: string, names: readonly string[]][] = [
  ['Platform on this machine', ['start', 'ps', 'restart', 'stop', 'down', 'bootstrap']],
  ['Any platform', ['status', 'health', 'upgrade', 'projects', 'secrets', 'token', 'logs', 'audit']],
  ['Tables and rows of a project', ['schema', 'rls', 'db', 'migrations', 'gen']],
  ['Files of a project', ['storage']],
  ['Realtime of a project', ['realtime']],
  ['Edge functions of a project', ['functions']],
  ['Webhooks of a project', ['webhooks']],
  ['People of a project', ['auth']],
  ['Backups and copies of a project', ['backup', 'pitr', 'branch']],
  ['This directory', ['config', 'link', 'completion']],
]

/** The summaries of groups. */
export const groups: Readonly<Record<string, string>> = {
  projects: 'Create, list, suspend, delete projects; show their keys',
  schema: 'Tables, columns and extensions',
  rls: 'Row-level security: enable, policies, tests',
  db: 'Push migrations to a project, pull its schema, reset it',
  migrations: 'List and apply the migrations of this directory',
  auth: 'Users of a project and their sessions; members and invites',
  gen: 'Generate types from the schema of a project',
  realtime: 'Subscribe to changes and messages; choose which tables emit changes',
  functions: 'Write, run, deploy and call edge functions; read their logs',
  webhooks: 'Send events to URLs, read and retry deliveries, forward events to this machine',
  backup: 'Make, verify and schedule backups; restore one and undo it',
  pitr: 'Recover a project to a time, and cut over to the recovered copy',
  branch: 'Branches: isolated copies of a project',
  storage: 'Buckets and files: list, copy, remove',
  secrets: 'Rotate the JWT secret or the keys of a project',
  token: 'Mint, list and revoke platform tokens',
  audit: 'Prune the audit log',
  config: 'Read and write the settings of this directory',
}
