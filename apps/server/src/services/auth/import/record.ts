// One record of an import: either a user as it will be written, or what is wrong with it.
import { Refusal } from '#src/kernel/errors.ts'
import { addressFrom } from '../mail/address.ts'

/** Times are passed on as they are written: Postgres keeps more digits than a Date. */
export interface ImportedUser {
  id: string
  email: string
  password_hash: string | null
  email_confirmed_at: string | null
  created_at: string | null
  user_metadata: object
}

export type ReadRecord = { user: ImportedUser } | { complaint: string }

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const bcrypt = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/
const maxCost = 14
/** As in JSON, or as Postgres writes it. */
const time = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d(:?\d\d)?)$/i
/** Texts in JSON; a backslash that is itself written with one escapes nothing. */
const nul = /(?<!\\)(?:\\\\)*\\u0000/

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function readRecord(record: unknown): ReadRecord {
  if (!isObject(record)) return { complaint: 'The record is not an object' }
  try {
    return { user: userFrom(record) }
  } catch (error) {
    if (error instanceof Refusal) return { complaint: error.message }
    throw error
  }
}

const userFrom = (record: Json): ImportedUser => ({
  id: idFrom(record['id']),
  email: addressFrom(record['email']),
  password_hash: hashFrom(record),
  email_confirmed_at: timeFrom(record, 'email_confirmed_at'),
  created_at: timeFrom(record, 'created_at'),
  user_metadata: metadataFrom(record['raw_user_meta_data']),
})

function idFrom(id: unknown): string {
  if (id === undefined || id === null) return crypto.randomUUID()
  if (typeof id !== 'string' || !uuid.test(id)) throw wrong('id is not a UUID')
  return id.toLowerCase()
}

/** Verbatim. A cost above the limit would keep a processor busy for seconds at every sign-in. */
function hashFrom(record: Json): string | null {
  for (const name of ['password', 'encrypted_password'])
    if (record[name]) throw wrong(`${name} is not read: give a bcrypt hash as password_hash`)
  const hash = record['password_hash']
  if (hash === undefined || hash === null || hash === '') return null
  const cost = typeof hash === 'string' ? bcrypt.exec(hash)?.[1] : undefined
  if (cost === undefined) throw wrong('password_hash is not a bcrypt hash')
  if (Number(cost) < 4) throw wrong('password_hash has a bcrypt cost below 4')
  if (Number(cost) > maxCost) throw wrong(`password_hash has a bcrypt cost above ${maxCost}`)
  return hash as string
}

function timeFrom(record: Json, name: string): string | null {
  const given = record[name]
  if (given === undefined || given === null) return null
  if (typeof given !== 'string' || !time.test(given))
    throw wrong(`${name} is not a time such as 2024-01-31T09:30:00Z`)
  return given
}

function metadataFrom(given: unknown): object {
  if (given === undefined || given === null) return {}
  if (!isObject(given)) throw wrong('raw_user_meta_data is not an object')
  if (!isAtMost(given, mostMetadata)) throw tooLarge()
  const text = JSON.stringify(given)
  if (nul.test(text)) throw wrong('raw_user_meta_data holds a NUL character')
  if (sizeInDatabase(text) > mostMetadata) throw tooLarge()
  return given
}

const tooLarge = () => wrong(`raw_user_meta_data is larger than ${mostMetadata} bytes`)

/** Whether its texts and values are so many at most. Stops counting there: the metadata may be megabytes. */
function isAtMost(given: object, most: number): boolean {
  let size = 0
  const pending: unknown[] = [given]
  while (pending.length > 0) {
    const value = pending.pop()
    size += typeof value === 'string' ? value.length : 1
    if (size > most) return false
    if (typeof value !== 'object' || value === null) continue
    for (const key in value) {
      size += key.length
      if (size + pending.length > most) return false
      pending.push((value as Json)[key])
    }
  }
  return true
}

/** With room for what else stands in an access token. */
const mostMetadata = 8000

/** Postgres writes a space after every colon and comma. */
function sizeInDatabase(text: string): number {
  return Buffer.byteLength(text) + (text.match(/[:,]/g)?.length ?? 0)
}

const wrong = (message: string) => new Refusal('validation_failed', message)
