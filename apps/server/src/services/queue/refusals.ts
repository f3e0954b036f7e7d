// Translates Postgres errors of queue statements for clients.
import { Refusal } from '#src/kernel/errors.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { refusalFromTenantCode } from '#src/planes/data/database-refusal.ts'

const noSuchTable = '42P01'
const noSuchFunction = '42883'
const noSuchSchema = '3F000'
const duplicateTable = '42P07'
const dependantsExist = '2BP01'
/** Lock timeout or statement timeout. */
const busy = new Set(['55P03', '57014'])
/** A text with NUL, or a number that jsonb cannot store. */
const unstorable = new Set(['22P05', '22021', '22003', '22P02'])
/** The result is larger than Postgres can return. */
const tooMuch = '54000'

export const noQueue = (name: string) =>
  new Refusal('queue_not_found', `There is no queue "${name}"; create it with POST queues {"name":"${name}"}`)

export function messageRefusal(error: unknown, queue: string): unknown {
  if (!(error instanceof DatabaseError)) return error
  if (error.code === noSuchTable) return noQueue(queue)
  if (unstorable.has(error.code))
    return new Refusal('invalid_request', 'A message holds something Postgres cannot keep as JSON', {
      details: error.message,
      hint: 'Leave out \\u0000, and write numbers beyond 131072 digits as texts.',
    })
  if (error.code === tooMuch)
    return new Refusal(
      'invalid_request',
      'The messages are too large to be answered in one piece; read fewer',
    )
  return refusalFromTenantCode(error)
}

/** For creating, dropping and listing queues. */
export function setUpRefusal(error: unknown, queue?: string): unknown {
  if (!(error instanceof DatabaseError)) return error
  if (error.code === duplicateTable)
    return new Refusal(
      'already_exists',
      `The parts of another queue have the names that those of "${queue}" need`,
      {
        hint: 'Choose another name.',
      },
    )
  if (busy.has(error.code))
    return new Refusal('object_busy', `Another session is using queue "${queue}"; try again in a moment`)
  if (error.code === dependantsExist)
    return new Refusal(
      'has_dependants',
      `Something depends on the tables of queue "${queue}"; drop that first`,
      {
        details: error.detail ?? '',
      },
    )
  if (error.code !== noSuchFunction && error.code !== noSuchSchema && error.code !== noSuchTable)
    return refusalFromTenantCode(error)
  return new Refusal(
    'retrofit_required',
    'The database of this project lacks the queue functions and needs a retrofit before queues can be created or dropped',
    {
      hint: 'Restart the platform: it brings the databases of projects up to date. Messages of existing queues can be sent and read meanwhile.',
    },
  )
}
