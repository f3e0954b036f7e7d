// Judges every statement that goes to Postgres: no value of a request is in its text, and no name a caller made up
// stands outside quotes.
import { anyNameMark, anyValueMark } from './markers.ts'
import { sqlParts } from './sql-words.ts'
import type { TapListener } from './tap.ts'

export interface StatementWatch extends TapListener {
  /** What was wrong, with the mark that tells the request. */
  complaints: { complaint: string; mark: string; text: string }[]
  /** Different texts seen. */
  statements(): number
  /** How often values were seen where they belong. */
  markedValues(): number
  /** How many texts held a name a caller made up. */
  markedNames(): number
}

export function watchStatements(): StatementWatch {
  const seen = new Set<string>()
  const complaints: StatementWatch['complaints'] = []
  let markedValues = 0
  let markedNames = 0
  return {
    complaints,
    statements: () => seen.size,
    markedValues: () => markedValues,
    markedNames: () => markedNames,
    onStatement(text) {
      if (seen.has(text)) return
      seen.add(text)
      if (anyNameMark.test(text)) markedNames++
      const found = complaintAbout(text)
      if (found) complaints.push({ ...found, text })
    },
    onValues(bytes) {
      if (anyValueMark.test(bytes.toString('latin1'))) markedValues++
    },
  }
}

/** A page's size is a checked integer and part of the statement on purpose: see docs/decisions/002. */
const pageSize = /\blimit \d{1,16}(?= offset |\)|$)/g

export function complaintAbout(sent: string): { complaint: string; mark: string } | undefined {
  const text = sent.replace(pageSize, 'limit')
  const value = anyValueMark.exec(text)
  if (value) return { complaint: 'a value is part of a statement', mark: around(text, value) }
  const name = anyNameMark.exec(text)
  const parts = sqlParts(text)
  if (!parts) return { complaint: 'a quote is never closed', mark: name?.[0] ?? '' }
  const bare = parts.find(({ is, text }) => is !== 'name' && is !== 'text' && anyNameMark.test(text))
  if (bare) return { complaint: 'a name stands outside quotes', mark: anyNameMark.exec(bare.text)![0] }
  const several = parts.some(({ is, text }) => is === 'bare' && /;\s*\S/.test(text))
  if (several && name) return { complaint: 'several statements in one', mark: name[0] }
  return
}

const around = (text: string, found: RegExpExecArray) =>
  found[0].startsWith('zq') ? found[0] : (/^[\w.:-]+/.exec(text.slice(found.index))?.[0] ?? found[0])
