// Splits a statement into quoted and unquoted parts, with the rules of Postgres.

export interface SqlPart {
  is: 'bare' | 'name' | 'text' | 'comment'
  text: string
}

const opening = /"|'|--|\/\*|\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/g

/** Undefined if a quote or comment is not closed. */
export function sqlParts(sql: string): SqlPart[] | undefined {
  const parts: SqlPart[] = []
  let at = 0
  for (;;) {
    opening.lastIndex = at
    const found = opening.exec(sql)
    const bare = sql.slice(at, found?.index)
    if (bare) parts.push({ is: 'bare', text: bare })
    if (!found) return parts
    const hasEscapes = found[0] === "'" && /[eE]$/.test(bare)
    const end = endOf(sql, found[0], found.index + found[0].length, hasEscapes)
    if (end === undefined) return
    parts.push({ is: kindOf(found[0]), text: sql.slice(found.index, end) })
    at = end
  }
}

const kindOf = (opened: string): SqlPart['is'] =>
  opened === '"' ? 'name' : opened === '--' || opened === '/*' ? 'comment' : 'text'

function endOf(sql: string, opened: string, from: number, hasEscapes: boolean): number | undefined {
  if (opened === '"') return after(/"(?:[^"]|"")*?"(?!")/gy, sql, from - 1)
  if (opened === "'") {
    const string = hasEscapes ? /'(?:[^'\\]|\\.|'')*?'(?!')/gsy : /'(?:[^']|'')*?'(?!')/gy
    return after(string, sql, from - 1)
  }
  if (opened === '--') return after(/[^\n]*/gy, sql, from)
  const closing = opened === '/*' ? '*/' : opened
  const end = sql.indexOf(closing, from)
  return end < 0 ? undefined : end + closing.length
}

function after(pattern: RegExp, sql: string, from: number): number | undefined {
  pattern.lastIndex = from
  return pattern.exec(sql) ? pattern.lastIndex : undefined
}
