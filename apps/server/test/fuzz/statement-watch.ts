// Checks every statement sent to Postgres: its text contains no value of a request, and names chosen by a caller only in
// quotes.
import { anyNameMark, anyValueMark } from './markers.ts'
import { sqlParts } from './sql-words.ts'
import type { TapListener } from './tap.ts'

export interface StatementWatch extends TapListener {
  /** The problems, with the mark that identifies the request. */
  problems: { problem: string; mark: string; text: string }[]
  /** The number of different statements. */
  statements(): number
  /** The number of marked values seen as parameters. */
  markedValues(): number
  /** The number of statements with a name chosen by a caller. */
  markedNames(): number
}

export function watchStatements(): StatementWatch {
  const seen = new Set<string>()
  const problems: StatementWatch['problems'] = []
  let markedValues = 0
  let markedNames = 0
  return {
    problems,
    statements: () => seen.size,
    markedValues: () => markedValues,
    markedNames: () => markedNames,
    onStatement(text) {
      if (seen.has(text)) return
      seen.add(text)
      if (anyNameMark.test(text)) markedNames++
      const found = problemWith(text)
      if (found) problems.push({ ...found, text })
    },
    onValues(bytes) {
      if (anyValueMark.test(bytes.toString('latin1'))) markedValues++
    },
  }
}

/** The page size is a validated integer and intentionally part of the statement: see docs/decisions/002. */
const pageSize = /\blimit \d{1,16}(?= offset |\)|$)/g

export function problemWith(sent: string): { problem: string; mark: string } | undefined {
  const text = sent.replace(pageSize, 'limit')
  const value = anyValueMark.exec(text)
  if (value) return { problem: 'a value is part of a statement', mark: around(text, value) }
  const name = anyNameMark.exec(text)
  const parts = sqlParts(text)
  if (!parts) return { problem: 'a quote is never closed', mark: name?.[0] ?? '' }
  const bare = parts.find(({ is, text }) => is !== 'name' && is !== 'text' && anyNameMark.test(text))
  if (bare) return { problem: 'a name stands outside quotes', mark: anyNameMark.exec(bare.text)![0] }
  const several = parts.some(({ is, text }) => is === 'bare' && /;\s*\S/.test(text))
  if (several && name) return { problem: 'several statements in one', mark: name[0] }
  return
}

const around = (text: string, found: RegExpExecArray) =>
  found[0].startsWith('zq') ? found[0] : (/^[\w.:-]+/.exec(text.slice(found.index))?.[0] ?? found[0])
