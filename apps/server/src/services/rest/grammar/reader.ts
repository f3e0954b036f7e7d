// A cursor over the text of one parameter. Its errors name the position.
import { Refusal } from '#src/kernel/errors.ts'

// Letters of any alphabet, digits, `_`, `$`, inner blanks and hyphens; a hyphen before `>` begins a JSON arrow.
const bareName = /(?:[\p{L}\p{M}\p{N}_$ ]|-(?!>))+/uy
const space = /\s*/y

export class Reader {
  readonly text: string
  /** What the text is, for errors: `select parameter`. */
  readonly what: string
  at = 0

  constructor(text: string, what: string) {
    this.text = text
    this.what = what
  }

  get isAtEnd(): boolean {
    return this.at >= this.text.length
  }

  startsWith(expected: string): boolean {
    return this.text.startsWith(expected, this.at)
  }

  /** Skips the expected text if it comes next. */
  take(expected: string): boolean {
    if (!this.startsWith(expected)) return false
    this.at += expected.length
    return true
  }

  need(expected: string): void {
    if (!this.take(expected)) this.fail(`expecting "${expected}"`)
  }

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at
    const found = pattern.exec(this.text)?.[0]
    if (found === undefined) return
    this.at += found.length
    return found
  }

  skipSpace(): void {
    this.match(space)
  }

  /** A bare or double-quoted name. */
  name(): string {
    this.skipSpace()
    if (this.startsWith('"')) return this.quoted()
    const name = this.match(bareName)?.trim()
    if (!name) this.fail('expecting a name')
    return name
  }

  /** A text between double quotes. A backslash escapes the next character. */
  quoted(): string {
    this.need('"')
    let out = ''
    for (;;) {
      const next = this.text[this.at++]
      if (next === undefined) this.fail('expecting a closing quote')
      if (next === '"') return out
      out += next === '\\' ? (this.text[this.at++] ?? '') : next
    }
  }

  fail(expectation: string): never {
    const found = this.isAtEnd ? 'end of input' : `"${this.text[this.at]}"`
    throw unreadable(this.what, this.text, `unexpected ${found} at position ${this.at + 1}, ${expectation}`)
  }
}

const shownLength = 200

export function unreadable(what: string, text: string, details: string): Refusal {
  const shown = text.length > shownLength ? `${text.slice(0, shownLength)}…` : text
  return new Refusal('PGRST100', `failed to parse ${what} (${shown})`, { details })
}
