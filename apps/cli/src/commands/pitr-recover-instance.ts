// Recovers the whole instance into an empty data directory, after the loss of the disk.
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { dataDirectory } from '../local-platform.ts'
import { runServer } from '../server-process.ts'
import { checkedTime } from './pitr.ts'

interface Recovered {
  system: string
  target_time: string | null
  window: { from: string; to: string }
}

export async function recoverInstance(context: Context): Promise<Answer> {
  const { given, screen } = context
  const { 'target-time': target, system } = given.values
  screen.progress('Recovering the instance')
  const { code, stdout, stderr } = await runServer(context, [
    'pitr-recover-instance',
    ...(target === undefined ? [] : ['--target-time', checkedTime(target)]),
    ...(system === undefined ? [] : ['--system', system]),
  ])
  if (code !== 0)
    throw new Failure(
      'pitr_recovery_failed',
      stderr.trim() || `the server ended with code ${code}`,
      'Set CONTROL_PLANE_SECRET, and PLATFORM_BACKUP_DIR or BACKUP_S3_BUCKET, as for the lost instance.',
    )
  const recovered = JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Recovered
  return {
    data: recovered,
    text: () =>
      `The instance in ${dataDirectory(context)} has the state of ${recovered.target_time ?? recovered.window.to}.`,
    hints: [
      'Files in the lost data directory are missing. Start the platform with the same settings: plinth start',
    ],
  }
}
