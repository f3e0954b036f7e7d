// Cuts a script into its statements the way the server's own scanner would see them, so that each can be run,
// recorded and blamed by itself. It never judges: what cannot be cut stays whole, and Postgres says what is wrong.

export interface Statement {
  /** Up to its last token, without the semicolon; comments in front of it belong to it. */
  readonly text: string
  /** Where `text` begins in the script, counted from 1. */
  readonly line: number
  /** Where its first word stands, behind those comments. */
  readonly firstLine: number
  /** Its first plain words in capitals: what kind of statement it is. */
  readonly words: readonly string[]
}

const maxWords = 12
// What Postgres takes for space; JavaScript's own class is wider.
const space = /[ \t\n\r\f\v]+/y
const word = /[A-Za-z_\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*/y
const number = /\d[\w.]*/y
const dollarTag = /\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/y
const restOfLine = /[^\n]*/y
/** Two strings with only a line end (and comments) between them are one, and keep the kind of the first. */
const continued = /(?:[ \t\f\v]|--[^\n]*)*\r?\n(?:[ \t\n\r\f\v]|--[^\n]*\n)*'/y

export function splitStatements(script: string): Statement[] {
  return new Splitter(script).split()
}

/** The line of the script where the error of a statement is; `position` counts characters from 1, as Postgres does. */
export function lineOfError({ text, line, firstLine }: Statement, position: number | undefined): number {
  if (position === undefined || !(position > 0)) return firstLine
  let found = line
  let left = position - 1
  for (const character of text) {
    if (left-- === 0) break
    if (character === '\n') found++
  }
  return found
}

class Splitter {
  readonly #script: string
  readonly #statements: Statement[] = []
  #at = 0
  /** Where the statement being read begins, its first and last token, and what has been seen of it. */
  #begin = 0
  #first = -1
  #last = 0
  #words: string[] = []
  #hasOtherTokens = false
  #depth = 0
  #atomicDepth = 0
  #before = ''

  constructor(script: string) {
    this.#script = script
  }

  split(): Statement[] {
    while (this.#at < this.#script.length) {
      if (this.#match(space) !== undefined || this.#comment()) continue
      this.#token()
      this.#last = this.#at
    }
    this.#end()
    return this.#statements
  }

  #token(): void {
    const start = this.#at
    const isFirst = this.#first < 0
    if (isFirst) this.#first = start
    const found = this.#match(word)
    if (found !== undefined) return this.#word(found)
    this.#before = this.#script[start]!
    switch (this.#before) {
      case ';':
        if (this.#depth > 0 || this.#atomicDepth > 0) break
        this.#at++
        if (isFirst) this.#first = -1
        return this.#end()
      case '\\':
        // A command of psql takes its line and needs no semicolon.
        if (!isFirst) break
        this.#words = [this.#match(restOfLine)!.trim().split(/\s/)[0]!]
        this.#last = this.#at
        return this.#end()
      case "'":
        return this.#quoted("'", false)
      case '"':
        return this.#quoted('"', false)
      case '$':
        return this.#dollarQuoted()
      case '(':
        this.#depth++
        break
      case ')':
        this.#depth = Math.max(0, this.#depth - 1)
        break
    }
    this.#hasOtherTokens = true
    if (this.#match(number) === undefined) this.#at++
  }

  #comment(): boolean {
    if (this.#script.startsWith('--', this.#at)) {
      this.#match(restOfLine)
      return true
    }
    if (!this.#script.startsWith('/*', this.#at)) return false
    let depth = 0
    const edge = /\/\*|\*\//g
    edge.lastIndex = this.#at
    for (let found = edge.exec(this.#script); found; found = edge.exec(this.#script)) {
      depth += found[0] === '/*' ? 1 : -1
      if (depth > 0) continue
      this.#at = edge.lastIndex
      return true
    }
    // Never closed: an error that must not be cut away.
    if (this.#first < 0) this.#first = this.#at
    this.#at = this.#last = this.#script.length
    return true
  }

  #word(found: string): void {
    const next = this.#script[this.#at]
    const upper = found.toUpperCase()
    if (next === "'" && upper === 'E') return this.#quoted("'", true)
    if (!this.#hasOtherTokens && this.#words.length < maxWords) this.#words.push(upper)
    // After AS or a dot any word is a name.
    if (this.#depth === 0 && this.#before !== '.' && this.#before !== 'AS') this.#followBody(upper)
    this.#before = upper
  }

  /** The body of a routine in standard SQL, BEGIN ATOMIC … END, holds semicolons; CASE … END nests in it. */
  #followBody(upper: string): void {
    if (this.#atomicDepth > 0) {
      if (upper === 'CASE') this.#atomicDepth++
      else if (upper === 'END') this.#atomicDepth--
    } else if (upper === 'ATOMIC' && this.#before === 'BEGIN' && isRoutine(this.#words)) this.#atomicDepth = 1
  }

  #quoted(quote: string, hasEscapes: boolean): void {
    this.#hasOtherTokens = true
    this.#before = quote
    this.#at++
    for (;;) {
      const end = this.#script.indexOf(quote, this.#at)
      if (end < 0) break
      if (hasEscapes && isEscaped(this.#script, this.#at, end)) {
        this.#at = end + 1
        continue
      }
      this.#at = end + 1
      if (this.#script[this.#at] === quote) this.#at++
      else if (!hasEscapes || this.#match(continued) === undefined) return
    }
    this.#at = this.#script.length
  }

  #dollarQuoted(): void {
    this.#hasOtherTokens = true
    const tag = this.#match(dollarTag)
    if (tag === undefined) {
      this.#at++
      return
    }
    const end = this.#script.indexOf(tag, this.#at)
    this.#at = end < 0 ? this.#script.length : end + tag.length
  }

  /** Without a single token there was no statement. */
  #end(): void {
    if (this.#first >= 0) {
      const text = this.#script.slice(this.#begin, this.#last)
      const begin = this.#begin + (text.length - text.trimStart().length)
      this.#statements.push({
        text: text.trim(),
        line: this.#lineAt(begin),
        firstLine: this.#lineAt(this.#first),
        words: this.#words,
      })
    }
    this.#begin = this.#at
    this.#first = -1
    this.#words = []
    this.#hasOtherTokens = false
    this.#depth = 0
    this.#atomicDepth = 0
    this.#before = ''
  }

  #countedTo = 0
  #lines = 1

  /** Asked for in rising order, so that the script is counted once. */
  #lineAt(offset: number): number {
    for (let at = this.#script.indexOf('\n', this.#countedTo); at >= 0 && at < offset; ) {
      this.#lines++
      this.#countedTo = at + 1
      at = this.#script.indexOf('\n', this.#countedTo)
    }
    return this.#lines
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#script)?.[0]
    if (found !== undefined) this.#at += found.length
    return found
  }
}

const isRoutine = ([first, ...rest]: readonly string[]): boolean => {
  const kind = rest[0] === 'OR' ? rest[2] : rest[0]
  return first === 'CREATE' && (kind === 'FUNCTION' || kind === 'PROCEDURE')
}

/** An odd number of backslashes in front of it. */
function isEscaped(script: string, from: number, at: number): boolean {
  let backslashes = 0
  while (at - 1 - backslashes >= from && script[at - 1 - backslashes] === '\\') backslashes++
  return backslashes % 2 === 1
}
