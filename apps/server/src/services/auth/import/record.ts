// Parses one record of an import into a user to insert, or into an error message.
import { Refusal } from '#src/kernel/errors.ts'
import { addressFrom } from '../mail/address.ts'

/** Times stay text, because Postgres stores microseconds and a Date would lose them. */
export interface ImportedUser {
  id: string
  email: string
  password_hash: string | null
  email_confirmed_at: string | null
  created_at: string | null
  user_metadata: object
}

export type ReadRecord = { user: ImportedUser } | { error: string }

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const bcrypt = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/
const maxCost = 14
/** The time formats of JSON and of Postgres. */
const time = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d(:?\d\d)?)$/i
/** An escaped NUL in JSON text. `\\u0000` is an escaped backslash followed by text. */
const nul = /(?<!\\)(?:\\\\)*\\u0000/

type Json = Readonly<Record<string, unknown>>
const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function readRecord(record: unknown): ReadRecord {
  if (!isObject(record)) return { error: 'The record is not an object' }
  try {
    return { user: userFrom(record) }
  } catch (error) {
    if (error instanceof Refusal) return { error: error.message }
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
  if (typeof id !== 'string' || !uuid.test(id)) throw invalid('id is not a UUID')
  return id.toLowerCase()
}

/** Takes the hash unchanged. A bcrypt cost above the limit would use seconds of CPU at every sign-in. */
function hashFrom(record: Json): string | null {
  for (const name of ['password', 'encrypted_password'])
    if (record[name]) throw invalid(`${name} is not read: give a bcrypt hash as password_hash`)
  const hash = record['password_hash']
  if (hash === undefined || hash === null || hash === '') return null
  const cost = typeof hash === 'string' ? bcrypt.exec(hash)?.[1] : undefined
  if (cost === undefined) throw invalid('password_hash is not a bcrypt hash')
  if (Number(cost) < 4) throw invalid('password_hash has a bcrypt cost below 4')
  if (Number(cost) > maxCost) throw invalid(`password_hash has a bcrypt cost above ${maxCost}`)
  return hash as string
}

function timeFrom(record: Json, name: string): string | null {
  const given = record[name]
  if (given === undefined || given === null) return null
  if (typeof given !== 'string' || !time.test(given))
    throw invalid(`${name} is not a time such as 2024-01-31T09:30:00Z`)
  return given
}

function metadataFrom(given: unknown): object {
  if (given === undefined || given === null) return {}
  if (!isObject(given)) throw invalid('raw_user_meta_data is not an object')
  if (!isWithinSize(given, maxMetadataBytes)) throw tooLarge()
  const text = JSON.stringify(given)
  if (nul.test(text)) throw invalid('raw_user_meta_data holds a NUL character')
  if (sizeInDatabase(text) > maxMetadataBytes) throw tooLarge()
  return given
}

const tooLarge = () => invalid(`raw_user_meta_data is larger than ${maxMetadataBytes} bytes`)

/** Stops counting at the limit, because the metadata may be megabytes. */
function isWithinSize(given: object, most: number): boolean {
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

/** Access tokens repeat the metadata, and they must fit into a header. */
const maxMetadataBytes = 8000

/** jsonb text has a space after every colon and comma. */
function sizeInDatabase(text: string): number {
  return Buffer.byteLength(text) + (text.match(/[:,]/g)?.length ?? 0)
}

const invalid = (message: string) => new Refusal('validation_failed', message)
