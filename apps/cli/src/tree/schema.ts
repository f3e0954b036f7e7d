// Commands for tables, columns and row-level security of a project.
import type { Command, Flag } from '../command.ts'

const schema: Flag = { name: 'schema', value: 'name', summary: 'The schema; default public' }
const table: Flag = { name: 'table', value: 'name', summary: 'the name of the table', isRequired: true }
const cascade: Flag = { name: 'cascade', summary: 'Also drop what depends on it' }

export const schemaCommands: readonly Command[] = [
  {
    path: 'schema tables',
    summary: 'List tables and views, or the columns of one',
    operands: [{ name: 'table', summary: 'show this table with its columns', isOptional: true }],
    flags: [schema],
    examples: ['plinth schema tables', 'plinth schema tables books'],
    load: () => import('../commands/schema.ts').then(module => module.tables),
  },
  {
    path: 'schema extensions',
    summary: 'List installed and available extensions',
    load: () => import('../commands/schema.ts').then(module => module.extensions),
  },
  {
    path: 'schema expose',
    summary: 'Set the schemas that the API serves, and warn about tables without row-level security',
    operands: [{ name: 'schemas', summary: 'all of them, separated by commas; the first is the default' }],
    examples: ['plinth schema expose public,api'],
    load: () => import('../commands/schema.ts').then(module => module.expose),
  },
  {
    path: 'schema table create',
    summary: 'Create a table from a JSON file, with row-level security on',
    flags: [
      { name: 'name', value: 'name', summary: 'the name of the table', isRequired: true },
      {
        name: 'from',
        value: 'file',
        summary:
          'JSON: a list of columns [{name, type, nullable, default, primary_key, unique, check, identity, references}], or an object with columns, primary_key, unique, checks, comment; - reads standard input',
        isRequired: true,
      },
      schema,
    ],
    examples: [
      `echo '[{"name":"id","type":"bigint","identity":"always","primary_key":true}]' | plinth schema table create --name books --from -`,
    ],
    load: () => import('../commands/schema.ts').then(module => module.createTable),
  },
  {
    path: 'schema table drop',
    summary: 'Drop a table with its rows',
    flags: [
      { name: 'name', value: 'name', summary: 'the name of the table', isRequired: true },
      { name: 'confirm', value: 'name', summary: 'The same name again, as confirmation' },
      cascade,
      schema,
    ],
    examples: ['plinth schema table drop --name books --confirm books'],
    load: () => import('../commands/schema.ts').then(module => module.dropTable),
  },
  {
    path: 'schema column add',
    summary: 'Add a column to a table; not null unless --nullable',
    flags: [
      table,
      { name: 'name', value: 'name', summary: 'the name of the column', isRequired: true },
      { name: 'type', value: 'type', summary: 'its type in SQL, such as "varchar(20)"', isRequired: true },
      { name: 'nullable', takesBoolean: true, summary: 'Allow null' },
      { name: 'default', value: 'sql', summary: `An SQL expression, such as "now()" or "'new'"` },
      schema,
    ],
    examples: ['plinth schema column add --table books --name pages --type int --nullable'],
    load: () => import('../commands/schema.ts').then(module => module.addColumn),
  },
  {
    path: 'schema column drop',
    summary: 'Drop a column with its values',
    flags: [
      table,
      { name: 'name', value: 'name', summary: 'the name of the column', isRequired: true },
      { name: 'confirm', value: 'name', summary: 'The same name again, as confirmation' },
      cascade,
      schema,
    ],
    examples: ['plinth schema column drop --table books --name pages --confirm pages'],
    load: () => import('../commands/schema.ts').then(module => module.dropColumn),
  },
]

export const rlsCommands: readonly Command[] = [
  {
    path: 'rls status',
    summary: 'Show which tables have row-level security',
    flags: [schema],
    load: () => import('../commands/rls.ts').then(module => module.status),
  },
  {
    path: 'rls enable',
    summary: 'Enable row-level security on a table',
    flags: [table, schema],
    load: () => import('../commands/rls.ts').then(module => module.enable),
  },
  {
    path: 'rls disable',
    summary: 'Disable row-level security: every role then sees every row',
    flags: [table, schema],
    load: () => import('../commands/rls.ts').then(module => module.disable),
  },
  {
    path: 'rls policies',
    summary: 'List the policies of one table or of all tables',
    flags: [{ name: 'table', value: 'name', summary: 'Only policies of this table' }, schema],
    load: () => import('../commands/rls.ts').then(module => module.policies),
  },
  {
    path: 'rls policy create',
    summary: 'Create a policy',
    flags: [
      table,
      { name: 'name', value: 'name', summary: 'the name of the policy', isRequired: true },
      {
        name: 'command',
        value: 'command',
        summary: 'select, insert, update, delete or all; default all',
      },
      { name: 'using', value: 'sql', summary: 'Which existing rows it allows' },
      { name: 'with-check', value: 'sql', summary: 'Which new rows it allows' },
      {
        name: 'role',
        value: 'roles',
        summary: 'anon, authenticated, service_role or public; default public',
      },
      { name: 'restrictive', summary: 'Restrict what other policies allow' },
      schema,
    ],
    examples: [
      'plinth rls policy create --table notes --name own --command select --using "owner = auth.uid()"',
    ],
    load: () => import('../commands/rls.ts').then(module => module.createPolicy),
  },
  {
    path: 'rls policy drop',
    summary: 'Drop a policy',
    flags: [
      table,
      { name: 'name', value: 'name', summary: 'the name of the policy', isRequired: true },
      schema,
    ],
    load: () => import('../commands/rls.ts').then(module => module.dropPolicy),
  },
  {
    path: 'rls test',
    summary: 'Test what a role and a user may do, in a transaction that is rolled back',
    flags: [
      table,
      {
        name: 'role',
        value: 'role',
        summary: 'anon, authenticated or service_role',
        isRequired: true,
      },
      { name: 'user', value: 'id', summary: 'The id of the user, as auth.uid() sees it' },
      { name: 'claims', value: 'json', summary: 'More claims of the JWT' },
      { name: 'command', value: 'command', summary: 'select, insert, update or delete; default select' },
      { name: 'row', value: 'json', summary: 'The row to insert, or the values to set' },
      { name: 'limit', value: 'rows', summary: 'How many rows to test; default 20' },
      schema,
    ],
    examples: [
      'plinth rls test --table notes --role anon',
      `plinth rls test --table notes --role authenticated --user 7c3e… --command insert --row '{"body":"hi"}'`,
    ],
    load: () => import('../commands/rls.ts').then(module => module.test),
  },
]
