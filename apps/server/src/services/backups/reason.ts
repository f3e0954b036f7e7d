// Why a backup has failed, for the operator and the owners of the project.
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable } from '#src/kernel/objects/pieces.ts'

const maxLength = 1000

export function reasonOf(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return 'It took too long. Functions of the project run meanwhile, in generated columns and checks.'
  if (error instanceof NoSpace) return 'There is no space left where backups are stored.'
  if (error instanceof ObjectsUnavailable)
    return 'The S3 service for backups cannot be reached, or has failed.'
  if (error instanceof DamagedFile)
    return `A file of the backup is damaged, or was written with another CONTROL_PLANE_SECRET: ${error.message}.`
  if (error instanceof MissingPiece) return `A file of the backup is missing: ${error.message}.`
  return (error instanceof Error ? error.message : String(error)).slice(0, maxLength)
}
