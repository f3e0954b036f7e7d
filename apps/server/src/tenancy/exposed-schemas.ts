// Which schemas of a project its API serves: a setting, bounded by what belongs to the platform.
import { Refusal } from '#src/kernel/errors.ts'

const byDefault = ['public']
const maxSchemas = 50

const ownedByPlatform = new Set([
  'platform',
  'auth',
  'extensions',
  'storage',
  'realtime',
  'pgmq',
  'information_schema',
  'supabase_migrations',
])

/** Schemas of the platform and of Postgres itself: never served, and not for a project to change. */
export const isReservedSchema = (name: string): boolean =>
  ownedByPlatform.has(name) || name.startsWith('pg_') || name.startsWith('information_schema')

/** What is stored, made safe to use: whatever does not fit falls back to the default. */
export function exposedSchemasFrom(setting: unknown): string[] {
  if (!Array.isArray(setting)) return [...byDefault]
  const names = setting.filter(
    (name): name is string => typeof name === 'string' && name !== '' && !isReservedSchema(name),
  )
  return names.length > 0 ? [...new Set(names)].slice(0, maxSchemas) : [...byDefault]
}

/** Refuses a setting that could not be served as written. */
export function checkExposedSchemas(setting: unknown): void {
  if (setting === undefined || setting === null) return
  const isList =
    Array.isArray(setting) &&
    setting.length > 0 &&
    setting.length <= maxSchemas &&
    setting.every(name => typeof name === 'string' && /^[^\p{C}]{1,63}$/u.test(name))
  if (!isList)
    throw new Refusal(
      'invalid_request',
      `settings.exposed_schemas must be a list of 1 to ${maxSchemas} schema names`,
      { hint: 'The first is the default, for example ["public", "api"].' },
    )
  const reserved = setting.find(isReservedSchema)
  if (reserved !== undefined)
    throw new Refusal(
      'invalid_request',
      `settings.exposed_schemas: the schema "${reserved}" belongs to the platform and cannot be exposed`,
    )
}
