// An SQL expression that somebody else wrote, made safe to stand inside a statement of ours. Between its parentheses
// it can be anything, but it cannot leave them: Postgres then judges it as an expression and as nothing else.
import { Refusal } from '#src/kernel/errors.ts'
import { Scanner, type SqlText, type TokenReader } from './scanner.ts'

/** `(expression)`, or a refusal that says why it is not one; `what` names it in that sentence. */
export function inParentheses(expression: string, what: string): string {
  const wrong = expression.includes('\0') ? 'it holds a NUL character' : whyOpen(expression)
  if (wrong) throw new Refusal('sql_error', `${what} must be one SQL expression: ${wrong}`)
  // The line end closes a comment that runs to the end of its line.
  return `(${expression}\n)`
}

/**
 * Undefined when every string, comment and parenthesis ends within the text and no statement does. In one go: the body
 * of a management request, and so all the expressions in it, has at most a megabyte.
 */
export function whyOpen(text: SqlText): string | undefined {
  let depth = 0
  let wrong: string | undefined
  const nothing = () => {}
  const reader: TokenReader = {
    word: nothing,
    quoted: nothing,
    comment: nothing,
    tokenEnd: nothing,
    lineEnd: nothing,
    symbol(character) {
      if (character === ';') wrong ??= 'it holds a semicolon'
      if (character === '(') depth++
      if (character === ')' && --depth < 0) wrong ??= 'it closes a parenthesis that it did not open'
    },
  }
  const scanner = new Scanner(text, reader)
  scanner.read(text.length)
  const { open } = scanner
  if (wrong) return wrong
  if (open?.kind === 'comment') return 'a comment in it does not end'
  if (open) return `what begins with ${text.slice(open.start, open.start + 1)} in it does not end`
  return depth > 0 ? 'it opens a parenthesis that it does not close' : undefined
}
