/** What a person is told when a command does not work: why, and what to do about it. */
export class Failure extends Error {
  /** Stable, lower case, `<topic>_<what>`; those of the server pass through unchanged. */
  readonly code: string
  readonly suggestion: string | null
  constructor(code: string, message: string, suggestion: string | null = null, cause?: unknown) {
    super(message, { cause })
    this.name = 'Failure'
    this.code = code
    this.suggestion = suggestion
  }
}

/** Ctrl-C while the terminal was ours (raw mode, line editor): ends with 130 and without a word. */
export class Interrupted extends Error {}
