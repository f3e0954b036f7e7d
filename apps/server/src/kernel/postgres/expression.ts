// An SQL expression that somebody else wrote, made safe to stand inside a statement of ours. Between its parentheses
// it can be anything, but it cannot leave them: Postgres then judges it as an expression and as nothing else.
import { Refusal } from '#src/kernel/errors.ts'

const blank = '[ \\t\\n\\r\\f\\v]'
const letter = '[A-Za-z_\\u0080-\\uffff]'
const lineComment = '--[^\\n\\r]*'
const escapedPart = `'(?:[^'\\\\]|\\\\[\\s\\S]|'')*'(?!')`
/** Behind a line end a string goes on, and stays of its kind. */
const goesOn = `[ \\t\\f\\v]*(?:${lineComment})?[\\n\\r](?:${blank}|${lineComment}[\\n\\r])*`

/** What Postgres' scanner takes as one piece; block comments nest and are not among them. */
const piece = new RegExp(
  [
    `${blank}+`,
    lineComment,
    `[eE]${escapedPart}(?:${goesOn}${escapedPart})*`,
    `${letter}(?:${letter}|[0-9$])*`,
    `'(?:[^']|'')*'(?!')`,
    `"(?:[^"]|"")*"(?!")`,
    `\\$(${letter}(?:${letter}|[0-9])*)?\\$[\\s\\S]*?\\$\\1\\$`,
    `\\$(?!(?:${letter}(?:${letter}|[0-9])*)?\\$)`,
    `[^'"$]`,
  ].join('|'),
  'y',
)

/** `(expression)`, or a refusal that says why it is not one; `what` names it in that sentence. */
export function inParentheses(expression: string, what: string): string {
  const wrong = whyOpen(expression)
  if (wrong) throw new Refusal('sql_error', `${what} must be one SQL expression: ${wrong}`)
  // The line end closes a comment that runs to the end of its line.
  return `(${expression}\n)`
}

/** Undefined when every string, comment and parenthesis ends within the text and no statement does. */
function whyOpen(text: string): string | undefined {
  if (text.includes('\0')) return 'it holds a NUL character'
  let depth = 0
  for (let at = 0; at < text.length; ) {
    if (text.startsWith('/*', at)) {
      at = endOfComment(text, at)
      if (at < 0) return 'a comment in it does not end'
      continue
    }
    piece.lastIndex = at
    const found = piece.exec(text)?.[0]
    if (found === undefined) return `what begins with ${text[at]} in it does not end`
    if (found === ';') return 'it holds a semicolon'
    if (found === '(') depth++
    if (found === ')' && --depth < 0) return 'it closes a parenthesis that it did not open'
    at += found.length
  }
  return depth > 0 ? 'it opens a parenthesis that it does not close' : undefined
}

/** -1 when it never ends. */
function endOfComment(text: string, start: number): number {
  const edge = /\/\*|\*\//g
  edge.lastIndex = start
  let depth = 0
  for (let found = edge.exec(text); found; found = edge.exec(text)) {
    depth += found[0] === '/*' ? 1 : -1
    if (depth === 0) return edge.lastIndex
  }
  return -1
}
