// Why a branch could not be made, for its owners.
import { MissingPiece, NoSpace, ObjectsUnavailable } from '#src/kernel/objects/pieces.ts'

const maxLength = 1000

export function reasonOf(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return 'It took too long. Functions of the project run meanwhile, in generated columns and checks.'
  if (error instanceof NoSpace) return 'There is no space left for files.'
  if (error instanceof ObjectsUnavailable) return 'The S3 service for files cannot be reached, or has failed.'
  if (error instanceof MissingPiece) return `A file is missing: ${error.message}.`
  return (error instanceof Error ? error.message : String(error)).slice(0, maxLength)
}
