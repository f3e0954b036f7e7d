// The setting `exposed_schemas`: schemas that the row API of a project serves. Platform and Postgres schemas are not allowed.
import { platformSchemas } from '@plinth/contract/platform-schemas.ts'
import { Refusal } from '#src/kernel/errors.ts'

const byDefault = ['public']
const maxSchemas = 50

/** Schemas of the platform and of Postgres. They are never served, and projects cannot change them. */
export const isReservedSchema = (name: string): boolean =>
  platformSchemas.has(name) || name.startsWith('pg_') || name.startsWith('information_schema')

/** Reads the stored setting. An invalid one falls back to the default. */
export function exposedSchemasFrom(setting: unknown): string[] {
  if (!Array.isArray(setting)) return [...byDefault]
  const names = setting.filter(
    (name): name is string => typeof name === 'string' && name !== '' && !isReservedSchema(name),
  )
  return names.length > 0 ? [...new Set(names)].slice(0, maxSchemas) : [...byDefault]
}

/** Rejects an invalid setting. The schemas need not exist yet. */
export function checkExposedSchemas(setting: unknown): void {
  if (setting === undefined || setting === null) return
  if (!Array.isArray(setting) || setting.length === 0 || setting.length > maxSchemas)
    throw new Refusal(
      'invalid_request',
      `settings.exposed_schemas must be a list of 1 to ${maxSchemas} schema names, such as ["public", "api"]`,
    )
  for (const [index, name] of setting.entries()) {
    const problem = problemWith(name) ?? (setting.indexOf(name) < index && `names "${name}" twice`)
    if (problem)
      throw new Refusal('invalid_request', `settings.exposed_schemas[${index}] ${problem}`, {
        hint: 'The first schema is the default, for example ["public", "api"].',
      })
  }
}

const maxNameBytes = 63

function problemWith(name: unknown): string | undefined {
  if (typeof name !== 'string' || name === '') return 'must be the name of a schema, as a text'
  // \p{C}: control characters, unassigned ones and halves of surrogate pairs.
  if (/\p{C}/u.test(name) || name.trim() !== name)
    return 'must be a schema name on one line, without blanks before or after it'
  if (Buffer.byteLength(name) > maxNameBytes)
    return `must be a schema name of at most ${maxNameBytes} bytes, which is the limit of Postgres`
  if (isReservedSchema(name))
    return `names "${name}", which belongs to the platform or to Postgres and cannot be exposed`
  return
}
