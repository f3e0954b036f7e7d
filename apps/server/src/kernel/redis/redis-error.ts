/** An error reply of Redis. Its text may quote arguments of the command, so only its code is logged. */
export class RedisError extends Error {
  /** The first word: WRONGTYPE, OOM, NOPERM, or ERR for most. */
  readonly code: string
  readonly reply: string
  constructor(reply: string) {
    const code = /^[A-Z][A-Z0-9_]*/.exec(reply)?.[0] ?? 'ERR'
    super(`Redis answered ${code}`)
    this.name = 'RedisError'
    this.code = code
    this.reply = reply
  }
}

/** There was no answer. Whether Redis has executed a command that was sent is unknown. */
export class RedisUnreachable extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'RedisUnreachable'
  }
}
