// Validates project settings. Keys of services have a fixed type; other keys are free. The total size is limited,
// because every node keeps the settings of its projects in memory.
import { Refusal } from '#src/kernel/errors.ts'
import { hasMoreValues } from '#src/kernel/value-count.ts'
import { checkExposedSchemas } from '#src/tenancy/exposed-schemas.ts'

type Json = Readonly<Record<string, unknown>>

const maxKeys = 200
const maxKeyLength = 200
const maxBytes = 256 * 1024
/** Per request. Each value may be a secret, and sealing runs synchronously before the size check. */
export const maxValues = 5000
/** Keys that belong to services, whose own routes validate the content. */
const serviceKeys = ['auth', 'smtp']

/** Checks the settings of a request. A null, which removes a key, is always valid. */
export function checkSettings(change: Json): void {
  checkValues(change)
  checkExposedSchemas(change['exposed_schemas'])
  for (const key of serviceKeys) {
    const value = change[key]
    if (value !== undefined && (typeof value !== 'object' || Array.isArray(value)))
      throw new Refusal('invalid_request', `settings.${key} must be an object, or null to remove it`)
  }
  const long = Object.keys(change).find(key => key.length > maxKeyLength)
  if (long !== undefined)
    throw new Refusal(
      'invalid_request',
      `The key "${long.slice(0, 20)}…" of settings is longer than ${maxKeyLength} characters`,
    )
}

/** Checks the merged settings before they are stored. A change that only removes keys is always accepted. */
export function checkSize(settings: Json, change: Json): void {
  if (Object.values(change).every(value => value === null)) return
  const keys = Object.keys(settings).length
  if (keys > maxKeys)
    throw new Refusal(
      'invalid_request',
      `The settings of a project may have ${maxKeys} keys, and would have ${keys}; remove some by setting them to null`,
    )
  const bytes = Buffer.byteLength(JSON.stringify(settings))
  if (bytes > maxBytes)
    throw new Refusal(
      'invalid_request',
      `The settings of a project may take ${maxBytes} bytes as JSON, and would take ${bytes}; keep large values in a table`,
    )
}

function checkValues(change: Json): void {
  // The object itself does not count.
  if (hasMoreValues(change, maxValues + 1))
    throw new Refusal('invalid_request', `settings may hold ${maxValues} values in one request; send fewer`)
}
