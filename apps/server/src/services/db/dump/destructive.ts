// Marks statements of a migration that can lose rows.
import type { Sliced } from '#src/kernel/slices.ts'

export const destructiveMark = '-- destructive\n'

const name = '(?:"(?:[^"]|"")+"|[^\\s".]+)'
const losing = new RegExp(
  `^\\s*(?:drop (?:table|schema|materialized view|sequence|extension|type|domain)\\b|alter table ${name}(?:\\.${name})? (?:drop column|alter column ${name} type)\\b)`,
  'i',
)

/** The statements are at the beginning of the chunks of a script. */
export function* markDestructive(
  script: readonly string[],
): Sliced<{ script: string[]; isDestructive: boolean }> {
  let isDestructive = false
  const marked: string[] = []
  for (const chunk of script) {
    if (marked.length % sliceSize === 0) yield
    const isLosing = losing.test(chunk.slice(0, longestBeginning))
    isDestructive ||= isLosing
    marked.push(isLosing ? `\n${destructiveMark}${chunk.trimStart()}` : chunk)
  }
  return { script: marked, isDestructive }
}

const longestBeginning = 1000
/** Statements in one slice. */
const sliceSize = 1000
