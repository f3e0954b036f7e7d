/** The error of a command: what is wrong, and what to do. */
export class Failure extends Error {
  /** Stable, lower case, `<topic>_<what>`. Codes of the server are kept. */
  readonly code: string
  readonly suggestion: string | null
  constructor(code: string, message: string, suggestion: string | null = null, cause?: unknown) {
    super(message, { cause })
    this.name = 'Failure'
    this.code = code
    this.suggestion = suggestion
  }
}

/** Ctrl-C, also when the terminal is in raw mode: the command ends with 130 and without a message. */
export class Interrupted extends Error {}

export function throwIfInterrupted(signal: AbortSignal): void {
  if (signal.aborted) throw new Interrupted()
}
