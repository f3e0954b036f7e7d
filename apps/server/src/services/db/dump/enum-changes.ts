// Adds labels to an enum in place. Postgres cannot remove or reorder them.
import type { Sliced } from '#src/kernel/slices.ts'
import { sliceCounter } from './collections.ts'
import type { Definition } from './definitions-store.ts'

/** With the name, which may have the words of another statement in it. */
const beginning = ({ name }: Definition) => `create type ${name} as enum (`

export const isEnum = (definition: Definition) => definition.sql.startsWith(beginning(definition))

interface EnumChange {
  statements: string[]
  /** As in a literal, without the quotes. */
  labels: string[]
}

/** Undefined if one of them is no enum, or if more than new labels is needed. */
export function* enumChange(old: Definition, definition: Definition): Sliced<EnumChange | undefined> {
  if (!isEnum(old) || !isEnum(definition)) return
  const isComplete = sliceCounter()
  const before = yield* labelsOf(old)
  const after = yield* labelsOf(definition)
  const known = new Set<string>()
  for (const label of before) {
    if (isComplete()) yield
    known.add(label)
  }
  const firstKnown = after.find(label => known.has(label))
  const change: EnumChange = { statements: [], labels: [] }
  let kept = 0
  for (const [place, label] of after.entries()) {
    if (isComplete()) yield
    if (known.has(label)) {
      if (before[kept++] !== label) return
      continue
    }
    const next = place > 0 ? ` after ${after[place - 1]}` : firstKnown ? ` before ${firstKnown}` : ''
    change.statements.push(`alter type ${definition.name} add value ${label}${next}`)
    change.labels.push(label.slice(1, -1))
  }
  return kept === before.length ? change : undefined
}

function* labelsOf(definition: Definition): Sliced<string[]> {
  const isComplete = sliceCounter()
  const labels: string[] = []
  for (const [label] of definition.sql.slice(beginning(definition).length).matchAll(/'(?:[^']|'')*'/g)) {
    if (isComplete()) yield
    labels.push(label)
  }
  return labels
}
