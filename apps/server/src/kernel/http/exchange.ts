import type { FastifyReply, FastifyRequest } from 'fastify'
import type { RawRequest } from './request.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** For this folder only: the request as the rest of the server sees it. */
    exchange: Exchange | null
  }
}

/** A request as planes and handlers see it. Expensive properties are computed when they are read. */
export class Exchange implements RawRequest {
  readonly request: FastifyRequest
  readonly reply: FastifyReply | undefined
  /** The caller that the plane admitted. */
  who: unknown
  #controller: AbortController | undefined

  constructor(request: FastifyRequest, reply: FastifyReply | undefined) {
    this.request = request
    this.reply = reply
  }
  get id() {
    return this.request.id
  }
  get method() {
    return this.request.method
  }
  get path() {
    const { url } = this.request
    const end = url.indexOf('?')
    return end < 0 ? url : url.slice(0, end)
  }
  get search() {
    const { url } = this.request
    const end = url.indexOf('?')
    return end < 0 ? '' : url.slice(end + 1)
  }
  get params() {
    return this.request.params as Record<string, string>
  }
  get headers() {
    return this.request.headers
  }
  get ip() {
    // Undefined once the client has disconnected.
    return (this.request.ip as string | undefined) ?? ''
  }
  get body() {
    return this.request.raw
  }
  get signal() {
    if (!this.#controller) {
      const controller = new AbortController()
      this.onDisconnect(() => controller.abort())
      this.#controller = controller
    }
    return this.#controller.signal
  }
  onDisconnect(run: () => void) {
    // Listens on the answer, because the socket outlives the request.
    const answer = this.reply?.raw
    if (answer?.closed) run()
    const close = () => {
      if (!answer!.writableFinished) run()
    }
    answer?.once('close', close)
    return () => void answer?.off('close', close)
  }
}

export function exchangeOf(request: FastifyRequest, reply?: FastifyReply): Exchange {
  request.exchange ??= new Exchange(request, reply)
  return request.exchange
}
