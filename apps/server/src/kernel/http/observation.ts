// One record for each answer. The log, usage and metrics read it, so they agree with each other.
export interface Answered {
  /** The id of the request. */
  readonly id: string
  /** The trace of the caller, if the request has a valid `traceparent`. */
  readonly traceId: string | null
  /** When the answer ended, in milliseconds since 1970. */
  readonly at: number
  readonly method: string
  /** The project that was called, once the caller was admitted. */
  readonly project: string | undefined
  /** The role of the caller, or the kind of actor. */
  readonly role: string | undefined
  /** The service whose route it was, or `none`. */
  readonly service: string
  /** The pattern of the route. The URL itself is not recorded, because its path and query can contain tokens. */
  readonly route: string
  readonly status: number
  readonly ms: number
  readonly bytesIn: number
  readonly bytesOut: number
}

export type Observe = (answer: Answered) => void

/** The caller as it appears in records. */
export interface Identity {
  readonly project: string | undefined
  readonly role: string | undefined
}
export const nobody: Identity = { project: undefined, role: undefined }

/** Rounds to a tenth of a millisecond. */
export const roundMs = (ms: number): number => Math.round(ms * 10) / 10
