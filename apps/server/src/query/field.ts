// A column, or a path into a JSON one.
import type { Reader } from './reader.ts'

export interface JsonStep {
  /** `->>` gives text. */
  readonly isText: boolean
  readonly key: string
  readonly isIndex: boolean
}

export interface Field {
  readonly column: string
  readonly path: readonly JsonStep[]
}

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
    const key = reader.match(jsonKey)
    if (key === undefined) reader.fail('expecting a JSON key (letters, digits and _) or an index')
    if (steps.push({ isText, key, isIndex: /^-?\d/.test(key) }) > maxSteps)
      reader.fail(`a path has at most ${maxSteps} steps`)
  }
  return steps
}

/** What an unaliased field is called in the result. */
export const nameOf = ({ column, path }: Field): string => path.at(-1)?.key ?? column
