// The interface between a plane and the HTTP server. The plane admits callers before the body is read, formats errors,
// and runs a hook after a handler has succeeded.
import type { Input, Reply, Route, Routes } from '@plinth/contract/route.ts'
import type { JsonText } from '#src/kernel/json-text.ts'
import type { Identity } from './observation.ts'
import type { RawReply, RawRequest, RequestHead } from './request.ts'

export interface Plane<Who> {
  /** Returns the caller, or throws a Refusal. `setHeader` sets a header on the answer, whatever its status. */
  admit(route: Route, request: RequestHead, setHeader: SetHeader): Who | Promise<Who>
  /** Who was admitted, for the record of the answer. */
  identify(who: Who, request: RequestHead): Identity
  /** Called after a handler has succeeded, before its answer is sent. */
  done?(route: Route, who: Who, request: RequestHead, reply: unknown): Promise<void>
  /** The body of a failure. An error other than a Refusal has the code `internal_error`. */
  refuse(failure: Failure, request: RequestHead): { body: unknown; headers: Record<string, string> }
  /** Maximum bytes of a body unless the route declares its own. */
  bodyLimit: number
  /** Headers of answers to a browser on another origin, and of the answer to its preflight. */
  cors?: Readonly<{
    headers: CorsHeaders
    /** `requested` is Access-Control-Request-Headers, as the browser sent it. Absent if routes answer preflights. */
    preflight?(requested: string | undefined): Readonly<Record<string, string>>
  }>
}
/** The first is on every answer, because a shared cache may return an answer to a client on another origin. */
export type CorsHeaders = Readonly<
  Record<'access-control-allow-origin' | 'access-control-expose-headers', string>
>
export type SetHeader = (name: string, value: string) => void

/** An error as the caller may see it. */
export interface Failure {
  status: number
  code: string
  message: string
  hint: string
  details: string
  headers: Record<string, string>
  /** Further fields of the error. */
  fields?: Readonly<Record<string, unknown>>
}

/** JsonText is for handlers that write a large answer in slices. */
type Answer<T> = T | JsonText | Promise<T | JsonText>

/** One handler per declared route. A missing handler or a wrong reply is a type error. */
export type Handlers<T extends Routes, Who> = {
  [K in keyof T]: T[K] extends { raw: true }
    ? (input: Input<T[K]>, who: Who, request: RawRequest) => Promise<RawReply>
    : (input: Input<T[K]>, who: Who, request: RequestHead) => Answer<Reply<T[K]>>
}
