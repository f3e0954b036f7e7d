// Commands for recovery to a time.
import type { Command } from '../command.ts'

export const pitrCommands: readonly Command[] = [
  {
    path: 'pitr restore-points',
    summary: 'Show to which times a project can be recovered',
    load: () => import('../commands/pitr.ts').then(module => module.restorePoints),
  },
  {
    path: 'pitr restore',
    summary: 'Recover a project to a time, aside; the project is unchanged until the cutover',
    flags: [
      {
        name: 'target-time',
        value: 'time',
        isRequired: true,
        summary: 'With an offset, such as 2030-01-31T10:00:00Z; up to microseconds',
      },
      { name: 'dry-run', summary: 'Only show what it would use, take and lose' },
      { name: 'no-wait', summary: 'Return at once, before it has ended' },
    ],
    examples: [
      'plinth pitr restore --target-time 2030-01-31T10:00:00Z --dry-run',
      'plinth pitr restore --target-time 2030-01-31T10:00:00.123456+02:00',
    ],
    load: () => import('../commands/pitr.ts').then(module => module.restore),
  },
  {
    path: 'pitr jobs',
    summary: 'List the recoveries of a project, newest first',
    load: () => import('../commands/pitr.ts').then(module => module.jobs),
  },
  {
    path: 'pitr cutover',
    summary: 'On the host: put a recovered copy in the place of its project',
    operands: [{ name: 'job', summary: 'the id of the recovery' }],
    flags: [
      {
        name: 'instance',
        summary: 'Recover all projects and the platform itself to that time; it must be stopped',
      },
    ],
    examples: ['plinth pitr cutover 0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d'],
    load: () => import('../commands/pitr-cutover.ts').then(module => module.cutover),
  },
  {
    path: 'pitr recover-instance',
    summary: 'On the host: recover the whole instance from its archive into an empty data directory',
    flags: [
      {
        name: 'target-time',
        value: 'time',
        summary: 'With an offset; otherwise the latest time in the archive',
      },
      { name: 'system', value: 'id', summary: 'Which archive, if there are several' },
    ],
    examples: [
      'plinth pitr recover-instance',
      'plinth pitr recover-instance --target-time 2030-01-31T10:00:00Z',
    ],
    load: () => import('../commands/pitr-recover-instance.ts').then(module => module.recoverInstance),
  },
]
