// Recovers the whole instance into an empty data directory, after the loss of the disk.
import { resultIn, rounded, runOnHost } from '../backups/host-command.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { dataDirectory } from '../local-platform.ts'
import { bytes } from '../print.ts'
import { elapsed } from '../storage/progress.ts'
import { checkedTime } from './pitr.ts'

interface Recovered {
  system: string
  target_time: string | null
  window: { from: string; to: string }
  bytes: number
}

export async function recoverInstance(context: Context): Promise<Answer> {
  const { given, screen } = context
  const { 'target-time': target, system } = given.values
  if (!context.stderr.isTTY) screen.progress('Recovering the instance')
  const finished = await runOnHost(context, 'Recovery of the instance', [
    'pitr-recover-instance',
    ...(target === undefined ? [] : ['--target-time', checkedTime(target)]),
    ...(system === undefined ? [] : ['--system', system]),
  ])
  const { code, stderr, seconds } = finished
  if (code !== 0)
    throw new Failure(
      'pitr_recovery_failed',
      stderr.trim() || `the server ended with code ${code}`,
      'Set CONTROL_PLANE_SECRET, and PLATFORM_BACKUP_DIR or BACKUP_S3_BUCKET, as for the lost instance.',
    )
  const recovered = resultIn<Recovered>(finished)
  return {
    data: { ...recovered, seconds: rounded(seconds) },
    text: () =>
      `Recovered the instance: ${bytes(recovered.bytes)} in ${elapsed(seconds)}. The one in ${dataDirectory(context)} has the state of ${recovered.target_time ?? recovered.window.to}.`,
    hints: [
      'Files in the lost data directory are missing. Start the platform with the same settings: plinth start',
    ],
  }
}
