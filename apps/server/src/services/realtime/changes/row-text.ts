// A row as Postgres has written it in JSON, taken apart without being read: numbers keep every digit.

/** The text of each column's value, by name. */
export function columnsOf(row: string): Map<string, string> {
  const columns = new Map<string, string>()
  let at = 1
  while (row[at] !== '}' && at < row.length) {
    const name = endOfString(row, at)
    const start = name + 1
    const end = endOfValue(row, start)
    columns.set(JSON.parse(row.slice(at, name)), row.slice(start, end))
    at = row[end] === ',' ? end + 1 : end
  }
  return columns
}

/** Some of the columns, as a row again. */
export function rowOf(columns: ReadonlyMap<string, string>, names: readonly string[]): string {
  const parts: string[] = []
  for (const name of names) {
    const value = columns.get(name)
    if (value !== undefined) parts.push(`${JSON.stringify(name)}:${value}`)
  }
  return `{${parts.join(',')}}`
}

const quote = 0x22
const backslash = 0x5c

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    const char = text.charCodeAt(at)
    if (char === backslash) at++
    else if (char === quote) return at + 1
  }
  return text.length
}

/** At the comma or the brace behind it. */
function endOfValue(text: string, start: number): number {
  let depth = 0
  for (let at = start; at < text.length; at++) {
    const char = text[at]!
    if (char === '"') at = endOfString(text, at) - 1
    else if (char === '{' || char === '[') depth++
    else if (depth === 0 && (char === ',' || char === '}')) return at
    else if (char === '}' || char === ']') depth--
  }
  return text.length
}
