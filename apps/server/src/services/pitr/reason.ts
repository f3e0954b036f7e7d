// Why a recovery has failed, or the archive cannot be used, for readers of the project and of health, which is public. Paths,
// and lines of the log of the second server, are only in the log of the platform.
import { basename } from 'node:path'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable } from '#src/kernel/objects/pieces.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { RecoveryFailed } from '#src/kernel/postgres/recovery/recovery.ts'
import { UnreadableSpool } from '#src/kernel/postgres/recovery/wal-spool.ts'
import { isOutage } from '#src/kernel/postgres/unavailable.ts'

const maxLength = 1000
const seeLog = 'The log of the platform says more.'

export function reasonOf(error: unknown): string {
  if (isTimeout(error))
    return 'It took too long. Functions of the project run meanwhile, in generated columns and checks.'
  if (error instanceof RecoveryFailed) return `The second server could not replay the changes. ${seeLog}`
  return known(error) ?? withoutPaths(error)
}

/** A whole sentence, or several. */
export function archiveReason(error: unknown): string {
  if (isTimeout(error)) return 'It is far behind, or its disk or S3 service does not answer.'
  const reason = known(error) ?? withoutPaths(error)
  return `${reason[0]?.toUpperCase() ?? ''}${reason.slice(1)}${reason.endsWith('.') ? '' : '.'}`
}

const isTimeout = (error: unknown) => error instanceof DOMException && error.name === 'TimeoutError'

function known(error: unknown): string | undefined {
  const code = error instanceof Error && !(error instanceof DatabaseError) ? codeOf(error) : undefined
  if (error instanceof UnreadableSpool)
    return `The file ${basename(error.path)} in the directory "wal" of the data directory cannot be decrypted: it is damaged, or of another CONTROL_PLANE_SECRET or cluster. Put the secret back, or move the file away; its WAL is then missing.`
  if (error instanceof NoSpace || code === 'ENOSPC' || code === 'EDQUOT')
    return 'There is no space left on the host.'
  if (error instanceof ObjectsUnavailable)
    return 'The S3 service of the archive cannot be reached, or has failed.'
  if (error instanceof DamagedFile)
    return `A file of the archive is damaged, or was written with another CONTROL_PLANE_SECRET. ${seeLog}`
  if (error instanceof MissingPiece) return `A file of the archive is missing. ${seeLog}`
  if (isOutage(error)) return 'The database server was stopped or restarted meanwhile.'
  if (code !== undefined && 'syscall' in (error as Error))
    return `The host could not read or write a file (${code}). ${seeLog}`
  return undefined
}

/** Positions in the WAL have a slash, too, but not after a space or quote. */
const pathForm = /(^|[\s"'(:=])\/[^\s/]/

function withoutPaths(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return pathForm.test(message) ? `An unexpected error has happened. ${seeLog}` : message.slice(0, maxLength)
}

function codeOf(error: Error): string | undefined {
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' ? code : undefined
}
