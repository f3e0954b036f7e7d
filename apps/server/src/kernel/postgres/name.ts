// Names of tables, columns and policies from requests.
import { Refusal } from '#src/kernel/errors.ts'
import { identifier } from './sql.ts'

export const qualified = (schema: string, name: string): string => `${identifier(schema)}.${identifier(name)}`

const maxBytes = 63

/** Postgres would silently truncate it. */
export function refuseLongName(name: string): void {
  const bytes = Buffer.byteLength(name)
  if (bytes > maxBytes)
    throw new Refusal(
      'invalid_request',
      `The name ${JSON.stringify(name)} has ${bytes} bytes; Postgres takes up to ${maxBytes}`,
    )
}
