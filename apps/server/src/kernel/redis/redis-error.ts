/** What Redis answered instead of a result. Its text may quote what it was sent, so only its code is for the log. */
export class RedisError extends Error {
  /** The first word: WRONGTYPE, OOM, NOPERM, or ERR for most. */
  readonly code: string
  readonly told: string
  constructor(told: string) {
    const code = /^[A-Z][A-Z0-9_]*/.exec(told)?.[0] ?? 'ERR'
    super(`Redis answered ${code}`)
    this.name = 'RedisError'
    this.code = code
    this.told = told
  }
}

/** No answer came: whether a command that was sent has been carried out is not known. */
export class RedisUnreachable extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'RedisUnreachable'
  }
}
