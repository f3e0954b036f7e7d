// What the operator must know about the archive for recovery to a time: warnings and metrics.
import type { Metric } from '#src/kernel/metrics.ts'
import type { RecoveryArchive } from './archive.ts'

/** Four segments of WAL. */
const behindLimitBytes = 64 * 1024 * 1024
/** Connecting takes a moment, also after a restart of the database. */
const patienceMs = 15_000

export function createPitrHealth(archive: RecoveryArchive, isBesideFiles: boolean) {
  /** Without those of a recovery of the instance, which the operator has requested. */
  const losses = () => archive.health().gaps.filter(({ isLoss }) => isLoss)

  function warnings(): string[] {
    const { isReceiving, receivedAt, failure, behindBytes, baseFailure, damaged } = archive.health()
    const isAway = !isReceiving && Date.now() - receivedAt > patienceMs
    return [
      ...(isAway
        ? [
            `Recovery to a time: changes are not archived at the moment. Later times cannot be recovered until they are.${failure === undefined ? '' : ` ${failure}`}`,
          ]
        : []),
      ...(failure !== undefined && !isAway
        ? [
            `Recovery to a time: changes cannot be stored in the archive. They wait on the disk of the database. ${failure}`,
          ]
        : []),
      ...(behindBytes > behindLimitBytes
        ? [
            `Recovery to a time: the archive is ${Math.round(behindBytes / 1_000_000)} MB behind. With more than 4 GB changes are lost for it.`,
          ]
        : []),
      ...(baseFailure === undefined
        ? []
        : [`Recovery to a time: the last base backup has failed. ${baseFailure}`]),
      ...losses().map(
        ({ from, to }) =>
          `Recovery to a time: no time from ${from} to ${to} can be recovered, because WAL was lost.`,
      ),
      ...(damaged.length > 0
        ? [`Recovery to a time: ${damaged.length} base backups are damaged. Look after the disk.`]
        : []),
      ...(isBesideFiles
        ? [
            'The archive for recovery to a time is in the data directory, on the same disk as the data. Set PLATFORM_BACKUP_DIR or BACKUP_S3_BUCKET.',
          ]
        : []),
    ]
  }

  const gauge = (name: string, help: string, read: () => number): Metric => ({
    name,
    type: 'gauge',
    help,
    read,
  })
  const age = (time: number | undefined) => (time === undefined ? 0 : (Date.now() - time) / 1000)

  return {
    warnings,
    metrics: [
      gauge('plinth_pitr_receiving', 'Whether WAL is being archived for recovery to a time.', () =>
        Number(archive.health().isReceiving),
      ),
      gauge(
        'plinth_pitr_behind_bytes',
        'Bytes of WAL that are not archived yet.',
        () => archive.health().behindBytes,
      ),
      gauge('plinth_pitr_base_backup_age_seconds', 'Age of the newest base backup.', () =>
        age(archive.health().baseAt),
      ),
      gauge('plinth_pitr_window_seconds', 'Age of the earliest time that can be recovered.', () => {
        const first = archive.health().windows[0]
        return age(first && Date.parse(first.from))
      }),
      gauge(
        'plinth_pitr_gaps',
        'Gaps in the times that can be recovered, because WAL was lost.',
        () => losses().length,
      ),
    ] satisfies Metric[],
  }
}
