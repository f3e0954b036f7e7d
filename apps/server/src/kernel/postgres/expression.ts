// Embeds an SQL expression of a tenant in a statement of the platform. The check ensures that the expression cannot close
// the parentheses around it, so Postgres can parse it only as an expression.
import { Refusal } from '#src/kernel/errors.ts'
import { Scanner, type SqlText, type TokenReader } from './scanner.ts'

/** Returns `(expression)`, or throws a Refusal that says what is wrong. `what` names the expression in the message. */
export function inParentheses(expression: string, what: string): string {
  const wrong = expression.includes('\0') ? 'it holds a NUL character' : expressionProblem(expression)
  if (wrong) throw new Refusal('sql_error', `${what} must be one SQL expression: ${wrong}`)
  // The line end closes a line comment at the end of the expression.
  return `(${expression}\n)`
}

/**
 * Undefined if every string, comment and parenthesis ends within the text and there is no semicolon. Not sliced, because
 * the body of a management request, which contains the expressions, has at most a megabyte.
 */
export function expressionProblem(text: SqlText): string | undefined {
  let depth = 0
  let wrong: string | undefined
  const ignore = () => {}
  const reader: TokenReader = {
    word: ignore,
    quoted: ignore,
    comment: ignore,
    tokenEnd: ignore,
    lineEnd: ignore,
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
