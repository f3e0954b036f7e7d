// Puts a recovered copy in the place of its project, or recovers the whole instance. It works on the host only, with the data
// directory: no route does it.
import { resultIn, rounded, runOnHost } from '../backups/host-command.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { dataDirectory } from '../local-platform.ts'
import { bytes } from '../print.ts'
import { elapsed } from '../storage/progress.ts'
import { checkedId } from '../webhooks/given.ts'

interface Ended {
  id: string
  project_id?: string
  status?: string
  restore_id?: string | null
  target_time?: string
  kept?: string
  /** Of the databases that are put in place. Null if it is not known. */
  bytes: number | null
}

export async function cutover(context: Context): Promise<Answer> {
  const { given, screen } = context
  const job = checkedId(given.operands['job']!, 'recovery', 'plinth pitr jobs shows the ids.')
  const isInstance = given.switches.has('instance')
  await confirm(context, isInstance)
  if (!context.stderr.isTTY) screen.progress(isInstance ? 'Recovering the instance' : 'Cutting over')
  const finished = await runOnHost(context, isInstance ? 'Recovery of the instance' : 'Cutover', [
    'pitr-cutover',
    job,
    ...(isInstance ? ['--instance'] : []),
  ])
  const { code, stderr, seconds } = finished
  if (code !== 0)
    throw new Failure(
      'pitr_cutover_failed',
      stderr.trim() || `the server ended with code ${code}`,
      isInstance
        ? 'The platform must be stopped: plinth stop. Set the same settings as for the platform.'
        : 'plinth pitr jobs shows the recoveries. Run it where the platform runs, with its data directory.',
    )
  const ended = resultIn<Ended>(finished)
  return { data: { ...ended, seconds: rounded(seconds) }, ...told(ended, seconds) }
}

function told(
  { kept, restore_id: restore, status, target_time: time, bytes: size }: Ended,
  seconds: number,
): Omit<Answer, 'data'> {
  const done = size === null ? `in ${elapsed(seconds)}` : `${bytes(size)} in ${elapsed(seconds)}`
  if (kept !== undefined)
    return {
      text: () =>
        `Recovered the instance: ${done}. All projects have the state of ${time}. The state before is kept in ${kept}.`,
      hints: [
        'Start the platform: plinth start. To go back within 7 days, stop it and exchange the two directories again.',
      ],
    }
  if (status === 'done')
    return {
      text: () => `Cut over: ${done}. The project has the state of that time.`,
      hints: [`To put the state before back, within 24 hours: plinth backup undo ${restore}`],
    }
  return {
    text: () =>
      `Requested the cutover: ${done}. The platform is stopped. Its next start with PLATFORM_PITR=on puts the copy in the place of the project.`,
    hints: ['PLATFORM_PITR=on plinth start. A start without it gives the recovery up.'],
  }
}

async function confirm(context: Context, isInstance: boolean): Promise<void> {
  const { given, screen } = context
  if (given.switches.has('yes')) return
  if (!screen.isInteractive)
    throw new Failure(
      'confirmation_missing',
      'A cutover replaces the present state. It needs a confirmation, and there is no terminal to ask for it.',
      'Run it again with --yes.',
    )
  const { ask } = await import('../prompt.ts')
  screen.hint(
    isInstance
      ? `Every project in ${dataDirectory(context)}, and the platform itself, get the state of that time. The present one is kept as a directory.`
      : 'The project gets the state of that time. What has changed since then is kept for 24 hours, and as a backup.',
  )
  const typed = await ask(context, 'Cut over? [y/N] ')
  if (!/^y(es)?$/i.test(typed.trim()))
    throw new Failure('confirmation_mismatch', 'Nothing was changed.', 'Answer y, or run it with --yes.')
}
