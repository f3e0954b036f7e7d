// Commands for the platform of this machine.
import type { Command } from '../command.ts'

const build = { name: 'build', summary: 'Run npm ci in the repository first' } as const
const noWait = { name: 'no-wait', summary: 'Return at once, before the platform is healthy' } as const
const force = { name: 'force', summary: 'Kill it if it does not stop within a few seconds' } as const

export const localPlatformCommands: readonly Command[] = [
  {
    path: 'start',
    summary: 'Start the platform in the background',
    flags: [build, noWait],
    load: () => import('../commands/start.ts').then(module => module.start),
  },
  {
    path: 'ps',
    summary: 'List the processes of the platform on this machine',
    load: () => import('../commands/ps.ts').then(module => module.ps),
  },
  {
    path: 'restart',
    summary: 'Stop the platform and start it again',
    flags: [build, noWait, force],
    load: () => import('../commands/start.ts').then(module => module.restart),
  },
  {
    path: 'stop',
    summary: 'Stop the platform after it has finished its requests',
    flags: [force],
    load: () => import('../commands/stop.ts').then(module => module.stop),
  },
  {
    path: 'down',
    summary: 'Stop the platform and, with --volumes, remove all its data',
    flags: [force, { name: 'volumes', summary: 'Remove the data directory with every project in it' }],
    examples: ['plinth down --volumes --yes'],
    load: () => import('../commands/stop.ts').then(module => module.down),
  },
  {
    path: 'bootstrap',
    summary: 'Create the first super_admin; the password comes from a prompt or standard input',
    flags: [
      { name: 'email', value: 'address', summary: 'the e-mail address to sign in with', isRequired: true },
      { name: 'name', value: 'name', summary: 'the name to show' },
    ],
    load: () => import('../commands/bootstrap.ts').then(module => module.bootstrap),
  },
]
