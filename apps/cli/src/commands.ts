// The command tree as data: parsing, help, "did you mean" and completion all come from here, and a command's
// code is loaded only when it is called.
import type { Command, Flag, Tree } from './command.ts'

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

const build = { name: 'build', summary: 'Run npm ci in the repository first' } as const
const noWait = { name: 'no-wait', summary: 'Return at once instead of when the platform is healthy' } as const
const force = { name: 'force', summary: 'Kill it when it does not stop within a few seconds' } as const
const showServiceRole = { name: 'show-service-role', summary: 'Reveal the service_role key' } as const
const project = {
  name: 'id',
  summary: 'id or slug; the project of --project or of the link when left out',
  isOptional: true,
} as const

const stack: readonly Command[] = [
  {
    path: 'start',
    summary: 'Start the platform in the background',
    flags: [build, noWait],
    load: () => import('./commands/start.ts').then(module => module.start),
  },
  {
    path: 'ps',
    summary: 'List the processes of the platform on this machine',
    load: () => import('./commands/stack.ts').then(module => module.ps),
  },
  {
    path: 'restart',
    summary: 'Stop the platform and start it again',
    flags: [build, noWait, force],
    load: () => import('./commands/start.ts').then(module => module.restart),
  },
  {
    path: 'stop',
    summary: 'Stop the platform, finishing what it is doing',
    flags: [force],
    load: () => import('./commands/stack.ts').then(module => module.stop),
  },
  {
    path: 'down',
    summary: 'Stop the platform and, with --volumes, remove all its data',
    flags: [force, { name: 'volumes', summary: 'Remove the data directory with every project in it' }],
    examples: ['plinth down --volumes --yes'],
    load: () => import('./commands/stack.ts').then(module => module.down),
  },
]

const overview: readonly Command[] = [
  {
    path: 'status',
    summary: 'Show the addresses, the state and the keys to use',
    flags: [{ name: 'local', summary: 'Show the platform of this data directory' }, showServiceRole],
    examples: ['eval $(plinth status -o env)'],
    printsEnv: true,
    load: () => import('./commands/status.ts').then(module => module.status),
  },
  {
    path: 'health',
    summary: 'Ask every part of the platform whether it works',
    load: () => import('./commands/status.ts').then(module => module.health),
  },
  {
    path: 'bootstrap',
    summary: 'Create the first super_admin (the password is asked for)',
    flags: [
      { name: 'email', value: 'address', summary: 'the e-mail address to sign in with', isRequired: true },
      { name: 'name', value: 'name', summary: 'the name to show' },
    ],
    load: () => import('./commands/bootstrap.ts').then(module => module.bootstrap),
  },
]

const tokens: readonly Command[] = [
  {
    path: 'token mint',
    summary: 'Mint a platform token; its text is shown once',
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
    load: () => import('./commands/token.ts').then(module => module.mint),
  },
  {
    path: 'token list',
    summary: 'List platform tokens, never their text',
    load: () => import('./commands/token.ts').then(module => module.list),
  },
  {
    path: 'token revoke',
    summary: 'Revoke a platform token at once',
    operands: [{ name: 'id', summary: 'the id shown by plinth token list' }],
    load: () => import('./commands/token.ts').then(module => module.revoke),
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
        summary: 'Only those in this state',
      },
    ],
    load: () => import('./commands/projects.ts').then(module => module.list),
  },
  {
    path: 'projects create',
    summary: 'Create a project with its own database and keys',
    operands: [{ name: 'name', summary: 'the name of the project' }],
    flags: [{ name: 'slug', value: 'slug', summary: 'The short name; made from the name when left out' }],
    examples: ['plinth projects create demo'],
    load: () => import('./commands/projects.ts').then(module => module.create),
  },
  {
    path: 'projects info',
    summary: 'Show one project',
    operands: [project],
    load: () => import('./commands/projects.ts').then(module => module.info),
  },
  {
    path: 'projects suspend',
    summary: 'Refuse all application traffic of a project',
    operands: [project],
    load: () => import('./commands/projects.ts').then(module => module.suspend),
  },
  {
    path: 'projects resume',
    summary: 'Serve a suspended project again',
    operands: [project],
    load: () => import('./commands/projects.ts').then(module => module.resume),
  },
  {
    path: 'projects delete',
    summary: 'Delete a project with its database and files',
    operands: [{ name: 'id', summary: 'id or slug of the project' }],
    flags: [{ name: 'confirm', value: 'name', summary: 'Its slug or name, instead of typing it when asked' }],
    examples: ['plinth projects delete demo --confirm demo'],
    load: () => import('./commands/projects.ts').then(module => module.remove),
  },
  {
    path: 'projects keys',
    summary: 'Show the keys of a project, service_role masked',
    operands: [project],
    flags: [showServiceRole],
    load: () => import('./commands/projects.ts').then(module => module.keys),
  },
]

const secrets: readonly Command[] = [
  {
    path: 'secrets rotate jwt',
    summary: 'Replace the JWT secret; every JWT of the project stops working',
    operands: [project],
    load: () => import('./commands/secrets.ts').then(module => module.rotateJwt),
  },
  {
    path: 'secrets rotate api-keys',
    summary: 'Replace the anon and service_role keys',
    operands: [project],
    load: () => import('./commands/secrets.ts').then(module => module.rotateApiKeys),
  },
]

const rest: readonly Command[] = [
  {
    path: 'audit prune',
    summary: 'Delete old audit entries',
    flags: [{ name: 'days', value: 'days', summary: 'Keep this many days; default as the platform is set' }],
    load: () => import('./commands/audit.ts').then(module => module.prune),
  },
  {
    path: 'config set',
    summary: 'Store the url or the project in .plinth/link.json',
    operands: [
      { name: 'key', summary: 'url or project', choices: ['url', 'project'] },
      { name: 'value', summary: 'what to store' },
    ],
    load: () => import('./commands/config.ts').then(module => module.set),
  },
  {
    path: 'config get',
    summary: 'Print the url (or the project) in force',
    operands: [{ name: 'key', summary: 'url or project', choices: ['url', 'project'], isOptional: true }],
    load: () => import('./commands/config.ts').then(module => module.get),
  },
  {
    path: 'config show',
    summary: 'Show every setting of the command line',
    flags: [{ name: 'origin', summary: 'Say where each value comes from' }],
    load: () => import('./commands/config.ts').then(module => module.show),
  },
  {
    path: 'link',
    summary: 'Make this directory talk to a platform',
    operands: [{ name: 'target', summary: 'a URL, or the name of an environment in plinth.json' }],
    examples: ['plinth link https://plinth.example.com --project shop'],
    load: () => import('./commands/config.ts').then(module => module.link),
  },
  {
    path: 'completion',
    summary: 'Print completion for a shell',
    operands: [{ name: 'shell', summary: 'bash, zsh or fish', choices: ['bash', 'zsh', 'fish'] }],
    examples: ['source <(plinth completion bash)'],
    printsText: true,
    load: () => import('./commands/completion.ts').then(module => module.completion),
  },
  {
    path: 'completion words',
    summary: 'What may be typed next; the shells call it',
    operands: [{ name: 'words', summary: 'the words so far', isOptional: true, isRest: true }],
    isHidden: true,
    printsText: true,
    load: () => import('./commands/completion.ts').then(module => module.words),
  },
]

export const tree: Tree = {
  commands: [...stack, ...overview, ...projects, ...secrets, ...tokens, ...rest],
  flags,
  aliases: { project: 'projects', tokens: 'token', secret: 'secrets' },
}

/** The words that may follow these, in the order of the tree. */
export function childrenOf(group: readonly string[]): string[] {
  const paths = tree.commands.filter(command => !command.isHidden).map(command => command.path.split(' '))
  const below = paths.filter(path => path.length > group.length && group.every((word, i) => path[i] === word))
  return [...new Set(below.map(path => path[group.length]!))]
}
