// Commands for backups.
import type { Command, Flag, Operand } from '../command.ts'

const backup: Operand = { name: 'backup', summary: 'the id of the backup' }
const noWait: Flag = { name: 'no-wait', summary: 'Return at once, before it has ended' }
const boolean = (name: string, summary: string): Flag => ({
  name,
  value: 'true or false',
  choices: ['true', 'false'],
  summary,
})

export const backupsCommands: readonly Command[] = [
  {
    path: 'backup create',
    summary: 'Make a backup of the whole project; ends with 1 if it fails',
    flags: [noWait],
    load: () => import('../commands/backups.ts').then(module => module.create),
  },
  {
    path: 'backup list',
    summary: 'List the backups of a project, newest first',
    flags: [
      {
        name: 'deleted',
        summary: 'List deleted projects instead whose backups are still kept; needs no project',
      },
    ],
    load: () => import('../commands/backups.ts').then(module => module.list),
  },
  {
    path: 'backup verify',
    summary: 'Restore a backup aside and compare it; ends with 1 if something differs',
    operands: [backup],
    flags: [noWait],
    examples: ['plinth backup verify 0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d'],
    load: () => import('../commands/backups.ts').then(module => module.verify),
  },
  {
    path: 'backup settings',
    summary: 'Show when backups are made, verified and removed; with flags, change it',
    flags: [
      boolean('enabled', 'Whether backups are made at intervals'),
      {
        name: 'interval-minutes',
        value: 'minutes',
        summary: 'The time between two backups, from 15 minutes to 525600',
      },
      {
        name: 'retain-days',
        value: 'days or none',
        summary: 'Remove backups that are older; none removes this rule',
      },
      {
        name: 'retain-count',
        value: 'number or none',
        summary: 'Remove backups beyond this number; none removes this rule',
      },
      boolean('verify-enabled', 'Whether backups are verified at intervals'),
      {
        name: 'verify-interval-minutes',
        value: 'minutes',
        summary: 'The time between two verifications of a backup, from 15 minutes to 525600',
      },
    ],
    examples: [
      'plinth backup settings --enabled true --interval-minutes 1440 --retain-days 30',
      'plinth backup settings --retain-days none --retain-count 10',
    ],
    load: () => import('../commands/backups-settings.ts').then(module => module.settings),
  },
  {
    path: 'backup restore',
    summary: 'Restore a backup in the place of its project or as a new one, after it was verified aside',
    operands: [backup],
    flags: [
      noWait,
      {
        name: 'as-new',
        value: 'name',
        summary: 'Make a new project with this name instead; --project may be the id of a deleted one',
      },
    ],
    examples: [
      'plinth backup restore 0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d',
      'plinth backup restore 0198f2c4-5d6e-7a8b-9c0d-1e2f3a4b5c6d --as-new "Shop, before the fall"',
    ],
    load: () => import('../commands/backups-restore.ts').then(module => module.restore),
  },
  {
    path: 'backup restores',
    summary: 'List the restores of a project, newest first',
    load: () => import('../commands/backups-restore.ts').then(module => module.list),
  },
  {
    path: 'backup undo',
    summary: 'Put the state before a restore back, within 24 hours; what has changed since then is lost',
    operands: [{ name: 'restore', summary: 'the id of the restore' }],
    flags: [noWait],
    load: () => import('../commands/backups-restore.ts').then(module => module.undo),
  },
]
