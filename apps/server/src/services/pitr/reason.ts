// Why a recovery has failed, for readers of the project. Paths, and lines of the log of the second server, are only in the
// log of the platform.
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable } from '#src/kernel/objects/pieces.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { RecoveryFailed } from '#src/kernel/postgres/recovery/recovery.ts'
import { isOutage } from '#src/kernel/postgres/unavailable.ts'

const maxLength = 1000
const seeLog = 'The log of the platform says more.'

export function reasonOf(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return 'It took too long. Functions of the project run meanwhile, in generated columns and checks.'
  if (error instanceof RecoveryFailed) return `The second server could not replay the changes. ${seeLog}`
  const code = error instanceof Error && !(error instanceof DatabaseError) ? codeOf(error) : undefined
  if (error instanceof NoSpace || code === 'ENOSPC' || code === 'EDQUOT')
    return 'There is no space left on the host.'
  if (error instanceof ObjectsUnavailable)
    return 'The S3 service of the archive cannot be reached, or has failed.'
  if (error instanceof DamagedFile)
    return `A file of the archive is damaged, or was written with another CONTROL_PLANE_SECRET. ${seeLog}`
  if (error instanceof MissingPiece) return `A file of the archive is missing. ${seeLog}`
  if (code !== undefined && 'syscall' in (error as Error))
    return `The host could not read or write a file (${code}). ${seeLog}`
  if (isOutage(error)) return 'The database server was stopped or restarted meanwhile.'
  return (error instanceof Error ? error.message : String(error)).slice(0, maxLength)
}

function codeOf(error: Error): string | undefined {
  const { code } = error as NodeJS.ErrnoException
  return typeof code === 'string' ? code : undefined
}
