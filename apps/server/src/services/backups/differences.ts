// What a verification has found: sentences for the list and the audit log, and how many there are of each kind for metrics.
import type { Difference } from '#src/archive/compare-database.ts'

/**
 * Labels of a metric, so they name nothing of a tenant. What a comparison finds comes first. 'unreadable' is an archive that is
 * damaged or incomplete, 'unrestorable' one from which no database can be made. An earlier release did not count: 'unknown'.
 */
export const differenceKinds = [
  'schema',
  'rows',
  'sequences',
  'large_objects',
  'files',
  'unreadable',
  'unrestorable',
  'interrupted',
  'unknown',
] as const
export type DifferenceKind = (typeof differenceKinds)[number]
export type DifferenceCounts = Partial<Record<DifferenceKind, number>>

export interface FileDifference {
  kind: 'files'
  text: string
}

export interface Differences {
  text: string
  counts: DifferenceCounts
}

/** Of these, the first are named in the text. */
const namedDifferences = 10

/** Null if there are none. */
export function differencesOf(found: readonly (Difference | FileDifference)[]): Differences | null {
  if (found.length === 0) return null
  const counts: DifferenceCounts = {}
  for (const { kind } of found) counts[kind] = (counts[kind] ?? 0) + 1
  const named = found.slice(0, namedDifferences).map(({ text }) => text)
  const others = found.length - named.length
  return { text: [...named, ...(others > 0 ? [`and ${others} more differences`] : [])].join('; '), counts }
}
