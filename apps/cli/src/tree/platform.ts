// Commands for any platform.
import type { Command } from '../command.ts'

const showServiceRole = { name: 'show-service-role', summary: 'Reveal the service_role key' } as const
const project = {
  name: 'id',
  summary: 'id or slug; default the project of --project or of the link',
  isOptional: true,
} as const

const overview: readonly Command[] = [
  {
    path: 'status',
    summary: 'Show the URLs, the state and the keys',
    flags: [{ name: 'local', summary: 'Show the platform of this data directory' }, showServiceRole],
    examples: ['eval $(plinth status -o env)'],
    printsEnv: true,
    load: () => import('../commands/status.ts').then(module => module.status),
  },
  {
    path: 'health',
    summary: 'Show the health of every service of the platform',
    load: () => import('../commands/status.ts').then(module => module.health),
  },
  {
    path: 'upgrade',
    summary: 'Show what an upgrade to the installed release does; with --yes, execute it',
    flags: [
      { name: 'target', value: 'version', summary: 'The version; default the installed one' },
      { name: 'dry-run', summary: 'Only show the plan, which is the default' },
    ],
    examples: ['plinth upgrade', 'plinth upgrade --yes'],
    load: () => import('../commands/upgrade.ts').then(module => module.upgrade),
  },
]

const projects: readonly Command[] = [
  {
    path: 'projects list',
    summary: 'List projects, newest first',
    flags: [
      {
        name: 'status',
        value: 'status',
        choices: ['active', 'suspended'],
        summary: 'Only projects with this status',
      },
    ],
    load: () => import('../commands/projects.ts').then(module => module.list),
  },
  {
    path: 'projects create',
    summary: 'Create a project with its own database and keys',
    operands: [{ name: 'name', summary: 'the name of the project' }],
    flags: [{ name: 'slug', value: 'slug', summary: 'The short name; default generated from the name' }],
    examples: ['plinth projects create demo'],
    load: () => import('../commands/projects.ts').then(module => module.create),
  },
  {
    path: 'projects info',
    summary: 'Show one project',
    operands: [project],
    load: () => import('../commands/projects.ts').then(module => module.info),
  },
  {
    path: 'projects suspend',
    summary: 'Reject all application traffic of a project',
    operands: [project],
    load: () => import('../commands/projects.ts').then(module => module.suspend),
  },
  {
    path: 'projects resume',
    summary: 'Accept application traffic of a suspended project again',
    operands: [project],
    load: () => import('../commands/projects.ts').then(module => module.resume),
  },
  {
    path: 'projects delete',
    summary: 'Delete a project with its database and files',
    operands: [{ name: 'id', summary: 'id or slug of the project' }],
    flags: [{ name: 'confirm', value: 'name', summary: 'Its slug or name, instead of the prompt' }],
    examples: ['plinth projects delete demo --confirm demo'],
    load: () => import('../commands/projects.ts').then(module => module.remove),
  },
  {
    path: 'projects keys',
    summary: 'Show the keys of a project; service_role is masked',
    operands: [project],
    flags: [showServiceRole],
    load: () => import('../commands/projects.ts').then(module => module.keys),
  },
  {
    path: 'projects pooler',
    summary: 'Reveal the connection strings of a project’s database',
    operands: [project],
    examples: [
      'plinth projects pooler shop',
      'psql "$(plinth projects pooler shop -o json | jq -r .data.direct)"',
    ],
    load: () => import('../commands/projects.ts').then(module => module.pooler),
  },
]

const mail: readonly Command[] = [
  {
    path: 'projects smtp show',
    summary: 'Show the SMTP settings of a project, without the password',
    operands: [project],
    load: () => import('../commands/smtp.ts').then(module => module.show),
  },
  {
    path: 'projects smtp set',
    summary: 'Set the SMTP server of a project; the password comes from a prompt or standard input',
    operands: [project],
    flags: [
      { name: 'host', value: 'host', summary: 'The server' },
      { name: 'port', value: 'port', summary: 'Its port; default 587, 465 with tls, 1025 with none' },
      { name: 'from', value: 'address', summary: 'The sender’s address' },
      { name: 'from-name', value: 'name', summary: 'The sender’s name' },
      { name: 'user', value: 'name', summary: 'The login; none disables authentication' },
      {
        name: 'encryption',
        value: 'how',
        choices: ['none', 'starttls', 'tls'],
        summary: 'none, starttls or tls',
      },
    ],
    examples: [
      'plinth projects smtp set shop --host smtp.example.com --from shop@example.com --user shop',
      'plinth projects smtp set shop --port 2525',
    ],
    load: () => import('../commands/smtp.ts').then(module => module.set),
  },
  {
    path: 'projects mail',
    summary: 'List locally captured mail, or show one message',
    operands: [project],
    flags: [{ name: 'message', value: 'id', summary: 'Show this message; latest shows the newest' }],
    examples: ['plinth projects mail shop --message latest'],
    load: () => import('../commands/mail.ts').then(module => module.mail),
  },
]

const secrets: readonly Command[] = [
  {
    path: 'secrets list',
    summary: 'List the secrets of a project, without their values',
    load: () => import('../commands/secrets.ts').then(module => module.list),
  },
  {
    path: 'secrets set',
    summary: 'Create a secret, or replace its value',
    operands: [
      { name: 'name', summary: 'the name of the secret' },
      {
        name: 'value',
        summary: 'the value; without it, it is asked for or read from standard input',
        isOptional: true,
      },
    ],
    examples: ['plinth secrets set STRIPE_KEY < key.txt'],
    load: () => import('../commands/secrets.ts').then(module => module.set),
  },
  {
    path: 'secrets delete',
    summary: 'Delete a secret',
    operands: [{ name: 'name', summary: 'the name or id of the secret' }],
    load: () => import('../commands/secrets.ts').then(module => module.remove),
  },
  {
    path: 'secrets rotate jwt',
    summary: 'Replace the JWT secret; every JWT of the project stops working',
    operands: [project],
    load: () => import('../commands/secrets.ts').then(module => module.rotateJwt),
  },
  {
    path: 'secrets rotate api-keys',
    summary: 'Replace the anon and service_role keys',
    operands: [project],
    load: () => import('../commands/secrets.ts').then(module => module.rotateApiKeys),
  },
]

const tokens: readonly Command[] = [
  {
    path: 'token mint',
    summary: 'Mint a platform token; it is shown once',
    flags: [
      { name: 'name', value: 'name', summary: 'what the token is for', isRequired: true },
      {
        name: 'scope',
        value: 'scope',
        choices: ['admin', 'deploy', 'read'],
        summary: 'admin, deploy or read',
        isRequired: true,
      },
      { name: 'expires', value: 'when', summary: '12h, 90d, 4w, 6m, 1y or an RFC 3339 time; default never' },
    ],
    examples: ['plinth token mint --name ci --scope deploy --expires 90d'],
    load: () => import('../commands/token.ts').then(module => module.mint),
  },
  {
    path: 'token list',
    summary: 'List platform tokens, without their secrets',
    load: () => import('../commands/token.ts').then(module => module.list),
  },
  {
    path: 'token revoke',
    summary: 'Revoke a platform token',
    operands: [{ name: 'id', summary: 'the id shown by plinth token list' }],
    load: () => import('../commands/token.ts').then(module => module.revoke),
  },
]

const logs: readonly Command[] = [
  {
    path: 'logs',
    summary: 'Print the latest requests and function lines of a project; with --follow until Ctrl-C',
    flags: [
      {
        name: 'follow',
        short: 'f',
        summary: 'Print new entries until Ctrl-C; into a pipe as one line of JSON each',
      },
      { name: 'limit', value: 'entries', summary: 'How many entries, at most 10000; default 50' },
      { name: 'project-id', value: 'id or slug', summary: 'The project, like --project' },
      {
        name: 'source',
        value: 'source',
        choices: ['function', 'access', 'all'],
        summary: 'Only function lines or only requests (access); default all',
      },
      { name: 'status', value: 'status', summary: 'Only this status, or a class like 5xx' },
      { name: 'route', value: 'text', summary: 'Only routes that contain this text' },
      { name: 'request-id', value: 'id', summary: 'Only this request: the x-request-id of its answer' },
      { name: 'from', value: 'time', summary: 'Only entries since this RFC 3339 time' },
      { name: 'to', value: 'time', summary: 'Only entries before this RFC 3339 time' },
      { name: 'text', value: 'text', summary: 'Only entries that contain this text' },
    ],
    examples: ['plinth logs --follow', 'plinth logs --status 5xx --route /rest/ --limit 20'],
    load: () => import('../commands/logs.ts').then(module => module.logs),
  },
]

const audit: readonly Command[] = [
  {
    path: 'audit prune',
    summary: 'Delete old audit entries',
    flags: [
      { name: 'days', value: 'days', summary: 'Keep this many days; default is the setting of the platform' },
    ],
    load: () => import('../commands/audit.ts').then(module => module.prune),
  },
]

export const platformCommands: readonly Command[] = [
  ...overview,
  ...projects,
  ...mail,
  ...secrets,
  ...tokens,
  ...logs,
  ...audit,
]
