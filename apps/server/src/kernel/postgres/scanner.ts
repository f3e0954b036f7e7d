// Scans SQL like the lexer of Postgres, as far as needed to distinguish tokens from the content of strings, quoted names
// and comments. It reads each character once, even in an unclosed string, so the time is linear in the length of the
// text. It stops after a given number of characters and continues from there, so that callers can pause.

/** A string. Tests pass an object that counts how often its characters are read. */
export type SqlText = Pick<string, 'length' | 'charCodeAt' | 'slice'>

/** A word is reported at its end, any other token at its beginning. `tokenEnd` follows at the end of each. */
export interface TokenReader {
  /** In upper case. A word longer than any keyword is truncated. */
  word(upper: string, start: number): void
  /** One character that belongs to no word, string, name or comment. */
  symbol(character: string, start: number): void
  /** A string or quoted name. `quote` is its first quote. */
  quoted(quote: string, start: number): void
  comment(start: number): void
  tokenEnd(end: number): void
  /** The end of the line that `skipLine` was called in. */
  lineEnd(end: number): void
}

type State =
  | 'plain'
  | 'word'
  | 'tag'
  | 'quoted'
  | 'escaped'
  | 'dollar'
  | 'line'
  | 'lineComment'
  | 'blockComment'

/** No name in Postgres is longer than 63 bytes. */
const longestKeyword = 64

export class Scanner {
  readonly #text: SqlText
  readonly #reader: TokenReader
  #at = 0
  #state: State = 'plain'
  /** Where the word, string or comment being read begins. */
  #start = 0
  #quote = 0
  #tag = ''
  /** How many characters of the closing tag have been read. */
  #matched = 0
  #commentDepth = 0
  /** After E'…' it is 'closed', and after a line end 'continues': then the next '…' has escapes too. */
  #escapedString: 'none' | 'closed' | 'continues' = 'none'

  constructor(text: SqlText, reader: TokenReader) {
    this.#text = text
    this.#reader = reader
  }

  get at(): number {
    return this.#at
  }

  get isDone(): boolean {
    return this.#at >= this.#text.length
  }

  /** The string, quoted name or block comment that is not closed at the end of the text. */
  get open(): { kind: 'quoted' | 'comment'; start: number } | undefined {
    if (this.#state === 'blockComment') return { kind: 'comment', start: this.#start }
    const isOpen = this.#state === 'quoted' || this.#state === 'escaped' || this.#state === 'dollar'
    return isOpen ? { kind: 'quoted', start: this.#start } : undefined
  }

  /** Reads this many characters, or one more if the last is part of a pair like `--`. */
  read(characters: number): void {
    const limit = Math.min(this.#at + characters, this.#text.length)
    while (this.#at < limit) this.#step(limit)
    if (this.isDone) this.#endOfText()
  }

  /** Skips the rest of the line without reporting tokens. */
  skipLine(): void {
    this.#state = 'line'
  }

  #step(limit: number): void {
    switch (this.#state) {
      case 'plain':
        return this.#plain()
      case 'word':
        return this.#word(limit)
      case 'tag':
        return this.#openingTag(limit)
      case 'quoted':
        return this.#quoted(limit)
      case 'escaped':
        return this.#escaped(limit)
      case 'dollar':
        return this.#dollarQuoted(limit)
      case 'line':
      case 'lineComment':
        return this.#line(limit)
      case 'blockComment':
        return this.#blockComment(limit)
    }
  }

  #endOfText(): void {
    if (this.#state === 'word') this.#endWord()
    else if (this.#state === 'tag') this.#noTag()
    else if (this.#state === 'line') this.#endLine()
    else if (this.open?.kind === 'quoted') this.#reader.tokenEnd(this.#at)
  }

  #plain(): void {
    const start = this.#at
    const code = this.#text.charCodeAt(start)
    if (isSpace(code)) {
      if (isLineEnd(code) && this.#escapedString === 'closed') this.#escapedString = 'continues'
      this.#at++
      return
    }
    if (code === minus && this.#text.charCodeAt(start + 1) === minus) return this.#begin('lineComment', 2)
    if (code === slash && this.#text.charCodeAt(start + 1) === star) {
      this.#commentDepth = 1
      this.#escapedString = 'none'
      return this.#begin('blockComment', 2)
    }
    const continues = this.#escapedString === 'continues'
    this.#escapedString = 'none'
    if (isWordStart(code)) return this.#begin('word', 1)
    if (code === dollar) return this.#begin('tag', 1)
    if (code === singleQuote || code === doubleQuote) {
      this.#quote = code
      this.#begin(continues && code === singleQuote ? 'escaped' : 'quoted', 1)
      return this.#reader.quoted(String.fromCharCode(code), start)
    }
    this.#at++
    this.#symbol(String.fromCharCode(code), start)
  }

  #begin(state: State, length: number): void {
    this.#start = this.#at
    this.#at += length
    this.#state = state
    if (state === 'lineComment' || state === 'blockComment') this.#reader.comment(this.#start)
  }

  #symbol(character: string, start: number): void {
    this.#state = 'plain'
    this.#reader.symbol(character, start)
    if (this.#state === 'plain') this.#reader.tokenEnd(start + 1)
  }

  #word(limit: number): void {
    while (this.#at < limit && isWordPart(this.#text.charCodeAt(this.#at))) this.#at++
    if (this.#at < limit) this.#endWord()
  }

  #endWord(): void {
    const [start, end] = [this.#start, this.#at]
    const text = this.#text.slice(start, Math.min(end, start + longestKeyword)).toUpperCase()
    if (text === 'E' && end < this.#text.length && this.#text.charCodeAt(end) === singleQuote) {
      this.#quote = singleQuote
      this.#begin('escaped', 1)
      return this.#reader.quoted("'", start)
    }
    this.#state = 'plain'
    this.#reader.word(text, start)
    this.#reader.tokenEnd(end)
  }

  /** After a dollar sign: `$$`, `$name$`, or neither. */
  #openingTag(limit: number): void {
    const isTagPart = (code: number) =>
      isWordPart(code) && code !== dollar && (this.#at > this.#start + 1 || isWordStart(code))
    while (this.#at < limit && isTagPart(this.#text.charCodeAt(this.#at))) this.#at++
    if (this.#at === limit) return
    if (this.#text.charCodeAt(this.#at) !== dollar) return this.#noTag()
    this.#at++
    this.#tag = this.#text.slice(this.#start, this.#at)
    this.#matched = 0
    this.#state = 'dollar'
    this.#reader.quoted('$', this.#start)
  }

  /** Not a tag after all: reports the dollar sign and the word after it. */
  #noTag(): void {
    const [start, end] = [this.#start, this.#at]
    this.#symbol('$', start)
    if (end === start + 1) return
    this.#start = start + 1
    this.#endWord()
  }

  #quoted(limit: number): void {
    while (this.#at < limit && this.#text.charCodeAt(this.#at) !== this.#quote) this.#at++
    if (this.#at < limit) this.#quoteSeen()
  }

  #escaped(limit: number): void {
    for (; this.#at < limit; this.#at++) {
      const code = this.#text.charCodeAt(this.#at)
      if (code === backslash) this.#at++
      else if (code === this.#quote) return this.#quoteSeen()
    }
    // A backslash may be the last character of the text.
    this.#at = Math.min(this.#at, this.#text.length)
  }

  /** A doubled quote is part of the string, a single one ends it. */
  #quoteSeen(): void {
    this.#at++
    if (this.#at < this.#text.length && this.#text.charCodeAt(this.#at) === this.#quote) {
      this.#at++
      return
    }
    if (this.#state === 'escaped') this.#escapedString = 'closed'
    this.#state = 'plain'
    this.#reader.tokenEnd(this.#at)
  }

  /** A tag has dollar signs only at its ends, so after a mismatch the next match can begin at this character at the earliest. */
  #dollarQuoted(limit: number): void {
    while (this.#at < limit) {
      const code = this.#text.charCodeAt(this.#at++)
      if (code === this.#tag.charCodeAt(this.#matched)) this.#matched++
      else this.#matched = code === dollar ? 1 : 0
      if (this.#matched < this.#tag.length) continue
      this.#state = 'plain'
      return this.#reader.tokenEnd(this.#at)
    }
  }

  #line(limit: number): void {
    while (this.#at < limit && !isLineEnd(this.#text.charCodeAt(this.#at))) this.#at++
    if (this.#at === limit) return
    if (this.#state === 'line') this.#endLine()
    else this.#state = 'plain'
  }

  #endLine(): void {
    this.#state = 'plain'
    this.#reader.lineEnd(this.#at)
  }

  #blockComment(limit: number): void {
    while (this.#at < limit) {
      const code = this.#text.charCodeAt(this.#at++)
      if (code !== slash && code !== star) continue
      if (this.#at === this.#text.length) return
      if (this.#text.charCodeAt(this.#at) !== (code === slash ? star : slash)) continue
      this.#at++
      this.#commentDepth += code === slash ? 1 : -1
      if (this.#commentDepth > 0) continue
      this.#state = 'plain'
      return
    }
  }
}

const [lineFeed, carriageReturn, blank, tab] = [0x0a, 0x0d, 0x20, 0x09]
const [doubleQuote, dollar, singleQuote, star, minus, slash, backslash, underscore] = [
  0x22, 0x24, 0x27, 0x2a, 0x2d, 0x2f, 0x5c, 0x5f,
]

const isLineEnd = (code: number) => code === lineFeed || code === carriageReturn
/** White space in Postgres: tab, line feed, vertical tab, form feed, carriage return, blank. */
const isSpace = (code: number) => code === blank || (code >= tab && code <= carriageReturn)
const isDigit = (code: number) => code >= 0x30 && code <= 0x39
const isLetter = (code: number) => (code >= 0x61 && code <= 0x7a) || (code >= 0x41 && code <= 0x5a)
const isWordStart = (code: number) => isLetter(code) || code === underscore || code >= 0x80
const isWordPart = (code: number) => isWordStart(code) || isDigit(code) || code === dollar
