// Splits a script into statements like the lexer of Postgres, so that each can be run and recorded by itself, and an
// error has its statement. It accepts invalid SQL: what cannot be split stays one statement, and Postgres reports the error.
import { Refusal } from '#src/kernel/errors.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { Scanner, type SqlText, type TokenReader } from './scanner.ts'

export interface ScriptStatement {
  /** From the comments before it to its last token, without the semicolon. */
  readonly text: string
  /** Where `text` begins in the script. */
  readonly start: number
  /** The line of the script where `text` begins, counted from 1. */
  readonly line: number
  /** The position in `text` and the line in the script of its first token after those comments. */
  readonly firstAt: number
  readonly firstLine: number
  /** Its first words in upper case, which tell the kind of statement. */
  readonly words: readonly string[]
  /** Set for a COPY from or to the client. */
  readonly copies: 'STDIN' | 'STDOUT' | undefined
}

/** Statements in one request. */
export const maxStatements = 100_000
/** Characters read between two pauses. */
export const sliceCharacters = 32 * 1024
const maxWords = 12

export function* splitStatements(script: SqlText, max = maxStatements): Sliced<ScriptStatement[]> {
  const splitter = new Splitter(script, max)
  while (!splitter.isDone) {
    splitter.read(sliceCharacters)
    yield
  }
  return splitter.end()
}

/** The line of the script with the error of a statement. `position` counts characters from 1, as Postgres does. */
export function* lineOfError(
  { text, line, firstLine }: Pick<ScriptStatement, 'text' | 'line' | 'firstLine'>,
  position: number | undefined,
): Sliced<number> {
  if (position === undefined || !(position > 0)) return firstLine
  let found = line
  let left = position - 1
  for (let at = 0; at < text.length && left > 0; at++, left--) {
    const code = text.charCodeAt(at)
    if (code === lineFeed) found++
    // Postgres counts a pair of surrogates as one character.
    if (code >= 0xd800 && code < 0xdc00) at++
    if (left % sliceCharacters === 0) yield
  }
  return found
}

const lineFeed = 0x0a

class Splitter implements TokenReader {
  readonly #script: SqlText
  readonly #max: number
  readonly #scanner: Scanner
  readonly #statements: ScriptStatement[] = []
  /** Where the current statement begins, including comments, and its first token. -1 before these are read. */
  #begin = -1
  #beginLine = 1
  #first = -1
  #firstLine = 1
  #last = 0
  #words: string[] = []
  #copies: ScriptStatement['copies']
  #hasOtherTokens = false
  #depth = 0
  #atomicDepth = 0
  #before = ''

  constructor(script: SqlText, max: number) {
    this.#script = script
    this.#max = max
    this.#scanner = new Scanner(script, this)
  }

  get isDone(): boolean {
    return this.#scanner.isDone
  }

  read(characters: number): void {
    this.#scanner.read(characters)
    this.#lineAt(this.#scanner.at)
  }

  end(): ScriptStatement[] {
    // An unclosed comment is part of the statement, so that Postgres reports the error.
    const open = this.#scanner.open
    if (open?.kind === 'comment') {
      this.#token(open.start)
      this.#last = this.#script.length
    }
    this.#endStatement()
    return this.#statements
  }

  comment(start: number): void {
    if (this.#begin >= 0) return
    this.#begin = start
    this.#beginLine = this.#lineAt(start)
  }

  word(upper: string, start: number): void {
    this.#token(start)
    if (!this.#hasOtherTokens && this.#words.length < maxWords) this.#words.push(upper)
    if (this.#depth === 0) {
      if (this.#words[0] === 'COPY' && (upper === 'STDIN' || upper === 'STDOUT')) this.#copies = upper
      // After AS or a dot any word is a name.
      if (this.#before !== '.' && this.#before !== 'AS') this.#followBody(upper)
    }
    this.#before = upper
  }

  quoted(quote: string, start: number): void {
    this.#token(start)
    this.#other(quote)
  }

  symbol(character: string, start: number): void {
    if (character === ';' && this.#depth === 0 && this.#atomicDepth === 0) return this.#endStatement()
    const isFirst = this.#first < 0
    this.#token(start)
    // A psql command extends to the end of its line and needs no semicolon.
    if (character === '\\' && isFirst) return this.#scanner.skipLine()
    if (character === '(') this.#depth++
    else if (character === ')') this.#depth = Math.max(0, this.#depth - 1)
    this.#other(character)
  }

  tokenEnd(end: number): void {
    this.#last = end
  }

  lineEnd(end: number): void {
    const name = this.#script.slice(this.#first, Math.min(end, this.#first + 100))
    this.#words = [name.trim().split(/\s/)[0]!]
    this.#last = end
    this.#endStatement()
  }

  #token(start: number): void {
    if (this.#first >= 0) return
    this.comment(start)
    this.#first = start
    this.#firstLine = this.#lineAt(start)
  }

  #other(before: string): void {
    this.#hasOtherTokens = true
    this.#before = before
  }

  /** The body of a routine in standard SQL, BEGIN ATOMIC … END, contains semicolons. CASE … END can be nested in it. */
  #followBody(upper: string): void {
    if (this.#atomicDepth > 0) {
      if (upper === 'CASE') this.#atomicDepth++
      else if (upper === 'END') this.#atomicDepth--
    } else if (upper === 'ATOMIC' && this.#before === 'BEGIN' && isRoutine(this.#words)) this.#atomicDepth = 1
  }

  /** Does nothing without a token. */
  #endStatement(): void {
    if (this.#first >= 0) {
      if (this.#statements.length === this.#max) throw tooMany()
      this.#statements.push({
        text: this.#script.slice(this.#begin, this.#last).trimEnd(),
        start: this.#begin,
        line: this.#beginLine,
        firstAt: this.#first - this.#begin,
        firstLine: this.#firstLine,
        words: this.#words,
        copies: this.#copies,
      })
      this.#words = []
    }
    this.#begin = -1
    this.#first = -1
    this.#copies = undefined
    this.#hasOtherTokens = false
    this.#depth = 0
    this.#atomicDepth = 0
    this.#before = ''
  }

  #countedTo = 0
  #lines = 1

  /**
   * Called with increasing offsets, so that each character is counted once. A word is reported at its end, when characters
   * after its start may have been counted already. That is correct because a word contains no line end.
   */
  #lineAt(offset: number): number {
    for (; this.#countedTo < offset; this.#countedTo++)
      if (this.#script.charCodeAt(this.#countedTo) === lineFeed) this.#lines++
    return this.#lines
  }
}

const isRoutine = ([first, ...rest]: readonly string[]): boolean => {
  const kind = rest[0] === 'OR' ? rest[2] : rest[0]
  return first === 'CREATE' && (kind === 'FUNCTION' || kind === 'PROCEDURE')
}

const tooMany = () =>
  new Refusal(
    'invalid_request',
    `The SQL of one request may have ${maxStatements} statements; this has more`,
    {
      hint: 'Send it in several requests.',
    },
  )
