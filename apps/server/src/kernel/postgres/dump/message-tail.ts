/** Keeps the last part of what a program reports, which has the reason if it fails. */
export class MessageTail {
  static readonly #maxLength = 8192
  #text = ''

  add(text: string): void {
    this.#text = (this.#text + text).slice(-MessageTail.#maxLength)
  }

  get text(): string {
    return this.#text.trim()
  }
}
