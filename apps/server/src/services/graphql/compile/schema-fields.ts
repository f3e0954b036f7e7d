// The fields `__schema` and `__type`. Postgres answers with a placeholder for each, which is replaced afterwards.
import { randomUUID } from 'node:crypto'

export const isOfSchema = (fieldName: string): boolean => fieldName === '__schema' || fieldName === '__type'

/** Unknown to everybody, so that no text of a project contains it. */
const token = randomUUID()

/** Stands in the answer of Postgres where a field about the schema belongs. */
export const placeholderOf = (name: string): string => `${token} ${name}`

/** Puts texts into an answer, each in place of its placeholder. */
export function withSchemaFields(answer: Buffer, shown: Readonly<Record<string, string>>): Buffer {
  let filled = answer
  for (const [placeholder, text] of Object.entries(shown)) {
    const quoted = `"${placeholder}"`
    const at = filled.indexOf(quoted)
    if (at < 0) continue
    filled = Buffer.concat([filled.subarray(0, at), Buffer.from(text), filled.subarray(at + quoted.length)])
  }
  return filled
}
