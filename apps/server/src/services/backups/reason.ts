// Why a backup has failed, for the operator and the owners of the project.
import { NotRestorable } from '#src/archive/restore-database.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece, NoSpace, ObjectsUnavailable } from '#src/kernel/objects/pieces.ts'
import { sqlState } from '#src/kernel/postgres/database-error.ts'
import { isOutage } from '#src/kernel/postgres/unavailable.ts'
import type { DifferenceKind } from './differences.ts'
import { FilesUnavailable } from './live-files.ts'
import { InsufficientSpace } from './space.ts'

const maxLength = 1000
/** Too many connections, a full disk, no memory. */
const insufficientResources = /^53/

/** A task that was begun so often, and interrupted each time, may be what stops the platform. */
export class Interrupted extends Error {
  constructor(times: number) {
    super(`the platform or its database stopped ${times} times meanwhile`)
    this.name = 'Interrupted'
  }
}

const isReserveReached = (error: unknown) => error instanceof Refusal && error.code === 'disk_reserve_reached'

/** The reason is neither the backup nor the project, so it says nothing about them. */
export const isOutside = (error: unknown): boolean =>
  error instanceof Interrupted ||
  error instanceof ObjectsUnavailable ||
  error instanceof NoSpace ||
  error instanceof InsufficientSpace ||
  isReserveReached(error) ||
  isOutage(error) ||
  insufficientResources.test(sqlState(error instanceof NotRestorable ? error.cause : error) ?? '')

/** What a verification that fails so says of the backup. */
export function kindOfFailure(error: unknown): DifferenceKind {
  if (isOutside(error)) return 'interrupted'
  return error instanceof DamagedFile || error instanceof MissingPiece ? 'unreadable' : 'unrestorable'
}

export function reasonOf(error: unknown): string {
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return 'It took too long. Functions of the project run meanwhile, in generated columns and checks.'
  if (error instanceof NoSpace) return 'There is no space left where backups are stored.'
  if (error instanceof FilesUnavailable) return 'The S3 service for files cannot be reached, or has failed.'
  if (error instanceof ObjectsUnavailable)
    return 'The S3 service for backups cannot be reached, or has failed.'
  if (error instanceof DamagedFile)
    return `A file of the backup is damaged, or was written with another CONTROL_PLANE_SECRET: ${error.message}.`
  if (isOutage(error)) return 'The database server was stopped or restarted meanwhile.'
  if (error instanceof MissingPiece) return `A file of the backup is missing: ${error.message}.`
  return (error instanceof Error ? error.message : String(error)).slice(0, maxLength)
}
