// What the settings of a project may be. Most keys are the project's own; those of services have a shape, and all
// together are bounded, because every node keeps the settings of the projects it serves in memory.
import { Refusal } from '#src/kernel/errors.ts'
import { checkExposedSchemas } from '#src/tenancy/exposed-schemas.ts'

type Json = Readonly<Record<string, unknown>>

const maxKeys = 200
const maxKeyLength = 200
const maxBytes = 256 * 1024
/** In one change. Each may be a secret, which is sealed without a pause before the size is known. */
export const maxValues = 5000
/** Parts that services keep here. What stands inside is checked by the routes of those services. */
const partsOfServices = ['auth', 'smtp']

/** Of what a request sends; null, which removes a key, is always possible. */
export function checkSettings(change: Json): void {
  checkValues(change)
  checkExposedSchemas(change['exposed_schemas'])
  for (const key of partsOfServices) {
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

/** Of the settings as they would be stored. A change that only removes keys is taken whatever the size. */
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
  const pending: unknown[] = [change]
  for (let values = 0; pending.length > 0; values++) {
    if (values > maxValues)
      throw new Refusal('invalid_request', `settings may hold ${maxValues} values in one request; send fewer`)
    const value = pending.pop()
    if (typeof value === 'object' && value !== null)
      for (const each of Object.values(value)) pending.push(each)
  }
}
