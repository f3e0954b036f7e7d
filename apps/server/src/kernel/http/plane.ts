// How a plane's policy meets the HTTP server: it admits before the body is read, words every refusal, and is
// told of what was done.
import type { Input, Reply, Route, Routes } from '@plinth/contract/route.ts'
import type { JsonText } from '#src/kernel/json-text.ts'
import type { RawReply, RawRequest, RequestHead } from './request.ts'

export interface Plane<Who> {
  /** Throws a Refusal, or says who is calling. `setHeader` puts a header on whatever answer follows. */
  admit(route: Route, request: RequestHead, setHeader: SetHeader): Who | Promise<Who>
  /** Called after a handler has succeeded, before its answer is sent. */
  done?(route: Route, who: Who, request: RequestHead, reply: unknown): Promise<void>
  /** The body of a refusal; anything not thrown on purpose arrives as `internal_error`. */
  refuse(failure: Failure, request: RequestHead): { body: unknown; headers: Record<string, string> }
  /** Bytes of a JSON body when the route does not say. */
  bodyLimit: number
  /** Headers of answers to a browser on another origin, and of the answer to its preflight. */
  cors?: Readonly<{ headers: CorsHeaders; preflight: Readonly<Record<string, string>> }>
}
/** The first goes on every answer, since shared caches keep answers for others too. */
export type CorsHeaders = Readonly<
  Record<'access-control-allow-origin' | 'access-control-expose-headers', string>
>
export type SetHeader = (name: string, value: string) => void

/** An error made ready to be told: nothing in it but what the caller may know. */
export interface Failure {
  status: number
  code: string
  message: string
  hint: string
  details: string
  headers: Record<string, string>
}

/** A large answer may be written in slices by the handler itself. */
type Answer<T> = T | JsonText | Promise<T | JsonText>

/** One handler per declared route: a missing one, or a wrong reply, does not compile. */
export type Handlers<T extends Routes, Who> = {
  [K in keyof T]: T[K] extends { raw: true }
    ? (input: Input<T[K]>, who: Who, request: RawRequest) => Promise<RawReply>
    : (input: Input<T[K]>, who: Who, request: RequestHead) => Answer<Reply<T[K]>>
}
