// The grammar of fields: a column, or a path into a JSON column.
import type { Field, JsonStep } from '#src/query/items.ts'
import type { Reader } from './reader.ts'

const jsonKey = /[a-zA-Z_][a-zA-Z0-9_]*|-?\d+/y
const maxSteps = 50

export function readField(reader: Reader): Field {
  return { column: reader.name(), path: readPath(reader) }
}

export function readPath(reader: Reader): JsonStep[] {
  const steps: JsonStep[] = []
  while (reader.take('->')) {
    const isText = reader.take('>')
    if (reader.startsWith('"')) reader.fail('JSON keys are not quoted')
    const text = reader.match(jsonKey)
    if (text === undefined) reader.fail('expecting a JSON key (letters, digits and _) or an index')
    const key = /^-?\d/.test(text) ? Number(text) : text
    if (steps.push({ isText, key }) > maxSteps) reader.fail(`a path has at most ${maxSteps} steps`)
  }
  return steps
}
