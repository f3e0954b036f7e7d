// Cuts a script into its statements where the lexer of Postgres would, so that each can be run, recorded and blamed by
// itself. It never judges: what cannot be cut stays whole, and Postgres says what is wrong.
import { Refusal } from '#src/kernel/errors.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { Scanner, type SqlText, type TokenReader } from './scanner.ts'

export interface Statement {
  /** Up to its last token, without the semicolon; comments in front of it belong to it. */
  readonly text: string
  /** Where `text` begins in the script. */
  readonly start: number
  /** The line of the script where `text` begins, counted from 1. */
  readonly line: number
  /** Where its first token stands in `text`, behind those comments, and in which line of the script. */
  readonly firstAt: number
  readonly firstLine: number
  /** Its first plain words in capitals: what kind of statement it is. */
  readonly words: readonly string[]
  /** Set when it is a COPY whose rows come from the client or go there. */
  readonly copies: 'STDIN' | 'STDOUT' | undefined
}

/** Of one request; more are refused before they are kept. */
export const maxStatements = 100_000
/** Characters read between two pauses. */
export const sliceCharacters = 32 * 1024
const maxWords = 12

export function* splitStatements(script: SqlText, max = maxStatements): Sliced<Statement[]> {
  const splitter = new Splitter(script, max)
  while (!splitter.isDone) {
    splitter.read(sliceCharacters)
    yield
  }
  return splitter.end()
}

/** The line of the script where the error of a statement is; `position` counts characters from 1, as Postgres does. */
export function* lineOfError(
  { text, line, firstLine }: Pick<Statement, 'text' | 'line' | 'firstLine'>,
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
  readonly #statements: Statement[] = []
  /** Where the statement being read begins, comments included, and its first token; -1 before these are seen. */
  #begin = -1
  #beginLine = 1
  #first = -1
  #firstLine = 1
  #last = 0
  #words: string[] = []
  #copies: Statement['copies']
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

  end(): Statement[] {
    // A comment that is never closed is an error, which Postgres must see.
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
    // A command of psql takes its line and needs no semicolon.
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

  /** The body of a routine in standard SQL, BEGIN ATOMIC … END, holds semicolons; CASE … END nests in it. */
  #followBody(upper: string): void {
    if (this.#atomicDepth > 0) {
      if (upper === 'CASE') this.#atomicDepth++
      else if (upper === 'END') this.#atomicDepth--
    } else if (upper === 'ATOMIC' && this.#before === 'BEGIN' && isRoutine(this.#words)) this.#atomicDepth = 1
  }

  /** Without a single token there was no statement. */
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
   * Asked for in rising order, so that each character is counted once. A word is reported at its end, when more may have
   * been counted than up to its start; there is no line end in a word.
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
