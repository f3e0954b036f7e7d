// The Prefer and Preference-Applied headers.
import { Refusal } from '#src/kernel/errors.ts'

export interface Preferences {
  readonly representation: 'minimal' | 'representation' | 'headers-only'
  readonly resolution?: 'merge-duplicates' | 'ignore-duplicates'
  readonly isDefaultForMissing: boolean
  readonly count?: string
  readonly rollsBack: boolean
  readonly isStrict: boolean
  readonly timeZone?: string
  readonly maxAffected?: number
  /** The values as sent, by name, for Preference-Applied. */
  readonly sent: ReadonlyMap<string, string>
}

const choices: ReadonlyMap<string, readonly string[]> = new Map([
  ['return', ['minimal', 'representation', 'headers-only']],
  ['resolution', ['merge-duplicates', 'ignore-duplicates']],
  ['missing', ['default', 'null']],
  ['count', ['exact', 'planned', 'estimated']],
  ['tx', ['commit', 'rollback']],
  ['handling', ['strict', 'lenient']],
])

const maxPreferences = 50

/** The names of time zones that Postgres knows. Case counts, and offsets are not names. */
export type TimeZones = ReadonlySet<string>

const noZones: TimeZones = new Set()
const none: Preferences = read('', noZones)
const maxCached = 500
const longestCached = 500
const known = new Map<string, Preferences>()

/** Whether `preferencesFrom` needs the names of time zones for this header. */
export const hasTimeZone = (header: string | undefined): boolean =>
  header !== undefined && /timezone/i.test(header)

/** Cached, since clients send the same few combinations. */
export function preferencesFrom(header: string | undefined, zones = noZones): Preferences {
  if (header === undefined || header === '') return none
  if (hasTimeZone(header)) return read(header, zones)
  const found = known.get(header)
  if (found) return found
  const preferences = read(header, zones)
  if (header.length > longestCached) return preferences
  if (known.size >= maxCached) known.clear()
  known.set(header, preferences)
  return preferences
}

function read(header: string, zones: TimeZones): Preferences {
  const sent = new Map<string, string>()
  const unknown: string[] = []
  const pieces = header.split(',', maxPreferences + 1)
  if (pieces.length > maxPreferences)
    throw new Refusal('invalid_request', `The Prefer header holds more than ${maxPreferences} preferences`)
  for (const piece of pieces) {
    const [name = '', ...rest] = piece.trim().split('=')
    const key = name.trim().toLowerCase()
    const value = rest.join('=').trim()
    if (key === '' || sent.has(key)) continue
    if (isValid(key, value, zones)) sent.set(key, value)
    else unknown.push(piece.trim())
  }
  const isStrict = sent.get('handling') === 'strict'
  if (isStrict && unknown.length > 0)
    throw new Refusal('PGRST122', 'Invalid preferences given with handling=strict', {
      details: `Invalid preferences: ${unknown.join(', ')}`,
    })
  const resolution = sent.get('resolution') as Preferences['resolution']
  const count = sent.get('count')
  const timeZone = sent.get('timezone')
  return {
    representation: (sent.get('return') ?? 'minimal') as Preferences['representation'],
    ...(resolution && { resolution }),
    isDefaultForMissing: sent.get('missing') === 'default',
    ...(count && { count }),
    rollsBack: sent.get('tx') === 'rollback',
    isStrict,
    ...(timeZone && { timeZone }),
    // Without strict handling, PostgREST ignores this preference.
    ...(isStrict && sent.has('max-affected') && { maxAffected: Number(sent.get('max-affected')) }),
    sent,
  }
}

function isValid(name: string, value: string, zones: TimeZones): boolean {
  if (name === 'timezone') return zones.has(value)
  if (name === 'max-affected') return /^\d{1,15}$/.test(value)
  return choices.get(name)?.includes(value) ?? false
}

const order = ['resolution', 'missing', 'return', 'count', 'tx', 'handling', 'timezone', 'max-affected']

/** `applicable` are the preferences that apply to this kind of request. */
export function appliedHeader(
  { sent, isStrict }: Preferences,
  applicable: readonly string[],
): string | undefined {
  const applied = order.filter(
    name => applicable.includes(name) && sent.has(name) && (name !== 'max-affected' || isStrict),
  )
  return applied.length > 0 ? applied.map(name => `${name}=${sent.get(name)}`).join(', ') : undefined
}
