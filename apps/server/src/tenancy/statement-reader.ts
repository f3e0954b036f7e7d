// Tokenizes one SQL statement: keywords, names and strings in order. Any unexpected syntax is NotRecognised, even if
// Postgres accepts it.

export class NotRecognised extends Error {}

const space = /[ \t\n\r\f\v]+|--[^\n]*/y
const word = /[A-Za-z_\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*/y
const quotedName = /"(?:[^"]|"")+"/y
const quotedText = /'(?:[^']|'')*'/y
const dollarTag = /\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/y

export class StatementReader {
  readonly #text: string
  #at = 0
  constructor(text: string) {
    this.#text = text
  }

  expect(...words: string[]): void {
    if (!this.accepts(...words)) throw new NotRecognised()
  }

  expectEnd(): void {
    this.#skip()
    if (this.#at < this.#text.length) throw new NotRecognised()
  }

  /** Consumes all of the keywords or none. */
  accepts(...words: string[]): boolean {
    const from = this.#at
    for (const each of words) {
      this.#skip()
      if (this.#match(word)?.toUpperCase() === each) continue
      this.#at = from
      return false
    }
    return true
  }

  acceptsSign(sign: string): boolean {
    this.#skip()
    const isThere = this.#text.startsWith(sign, this.#at)
    if (isThere) this.#at += sign.length
    return isThere
  }

  /** Folded as in Postgres: unquoted names become lower case. */
  name(): string {
    this.#skip()
    const quoted = this.#match(quotedName)
    if (quoted !== undefined) return quoted.slice(1, -1).replaceAll('""', '"')
    const plain = this.#match(word)
    // Followed by a quote it is the prefix of an escaped string or name, such as E'…' or U&"…".
    if (plain === undefined || /['"&]/.test(this.#text[this.#at] ?? '')) throw new NotRecognised()
    return plain.replace(/[A-Z]+/g, capitals => capitals.toLowerCase())
  }

  string(): string {
    this.#skip()
    const quoted = this.#match(quotedText)
    if (quoted !== undefined) return quoted.slice(1, -1).replaceAll("''", "'")
    const tag = this.#match(dollarTag)
    const end = tag === undefined ? -1 : this.#text.indexOf(tag, this.#at)
    if (tag === undefined || end < 0) throw new NotRecognised()
    const inside = this.#text.slice(this.#at, end)
    this.#at = end + tag.length
    return inside
  }

  #skip(): void {
    while (this.#match(space) !== undefined || this.#comment());
  }

  #comment(): boolean {
    if (!this.#text.startsWith('/*', this.#at)) return false
    const edge = /\/\*|\*\//g
    edge.lastIndex = this.#at
    let depth = 0
    do {
      const found = edge.exec(this.#text)
      if (!found) throw new NotRecognised()
      depth += found[0] === '/*' ? 1 : -1
    } while (depth > 0)
    this.#at = edge.lastIndex
    return true
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    if (found !== undefined) this.#at += found.length
    return found
  }
}
