// A declared route and its handler, as the framework wants them. The framework leaves bodies alone: reading one by its
// ways costs as much as all the rest of a small request.
import type { OutgoingHttpHeaders } from 'node:http'
import type { Input, Route } from '@plinth/contract/route.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ByteSource } from '#src/kernel/byte-source.ts'
import { JsonText } from '#src/kernel/json-text.ts'
import { takeBody } from './body.ts'
import { atEndOfTurn } from './end-of-turn.ts'
import { exchangeOf } from './exchange.ts'
import { defaultMaxValues, jsonFrom } from './json-body.ts'
import type { Plane } from './plane.ts'
import { pour } from './pour.ts'
import type { RawReply, RawRequest, RequestHead } from './request.ts'

export type AnyHandler = (input: Input<Route>, who: unknown, request: RequestHead | RawRequest) => unknown

export interface RouteParts<Who> {
  plane: Plane<Who>
  route: Route
  address: string
  handle: AnyHandler
  /** Throws when a body does not have the declared shape. */
  checkBody: ((body: unknown) => void) | undefined
  /** What all routes of the plane have in common. */
  common: object
  unsendable(error: unknown, requestId: string): void
}

export function addRoute<Who>(app: FastifyInstance, parts: RouteParts<Who>): void {
  const { plane, route, address, handle, checkBody, common, unsendable } = parts
  const status = route.status ?? 200
  const bodyLimit = route.bodyLimit ?? plane.bodyLimit
  const json = { anyKey: route.anyKey === true, maxValues: route.maxValues ?? defaultMaxValues }
  const takesNone = route.method === 'GET' || route.method === 'HEAD'
  app.route({
    ...common,
    method: route.method,
    url: address.replace(/\{(\w+)\}/g, ':$1').replace(/:path$/, '*'),
    ...(address.endsWith('{path}') && { preValidation: namePath }),
    schema: {
      ...(route.params && { params: route.params }),
      ...(route.query && { querystring: route.query }),
      ...(!route.raw && status !== 204 && { response: { [status]: route.reply } }),
    },
    handler: route.raw ? raw : takesNone ? answer : readAndAnswer,
  })

  function readAndAnswer(request: FastifyRequest, reply: FastifyReply): void {
    takeBody(request.raw, request.headers, bodyLimit, (error, bytes) => {
      if (error) return void reply.send(error)
      atEndOfTurn(() => {
        try {
          const body = jsonFrom(request.headers['content-type'], bytes, json)
          if (body instanceof Promise) body.then(take).catch(refuse)
          else take(body)
        } catch (refusal) {
          refuse(refusal)
        }
      })
    })

    function take(body: unknown): void {
      request.body = body
      checkBody?.(body)
      answer(request, reply)
    }
    function refuse(refusal: unknown): void {
      void reply.send(refusal)
    }
  }

  /** Without anything to wait for, the answer goes out in the same turn, with the others of it. */
  function answer(request: FastifyRequest, reply: FastifyReply): void {
    const exchange = exchangeOf(request)
    const result = handle(inputOf(request), exchange.who, exchange)
    if (plane.done || result instanceof Promise)
      settle(request, reply, Promise.resolve(result), value => send(reply, value))
    else atEndOfTurn(() => sendNow(request, reply, result))
  }

  function raw(request: FastifyRequest, reply: FastifyReply): void {
    const exchange = exchangeOf(request)
    const result = (handle(inputOf(request), exchange.who, exchange) as Promise<RawReply>).finally(() => {
      // The rest of a body that nobody wants any more is read and dropped, so that the answer can be heard.
      if (request.raw.complete) return
      request.raw.unpipe()
      request.raw.resume()
    })
    settle(request, reply, result, ({ status, headers, body }) => {
      reply.status(status).headers(headers ?? {})
      if (isSource(body)) pourOut(request, reply, body)
      else void reply.send(body ?? undefined)
    })
  }

  function pourOut(request: FastifyRequest, reply: FastifyReply, source: ByteSource): void {
    reply.hijack()
    const { raw, statusCode } = reply
    const head = { status: statusCode, headers: reply.getHeaders() as OutgoingHttpHeaders }
    pour(source, head, raw, request.raw.socket).catch(error => cut(error, request, reply))
  }

  /** Answers from where its result comes in: a wait of this function's own would be one more turn. */
  function settle<T>(
    request: FastifyRequest,
    reply: FastifyReply,
    result: Promise<T>,
    send: (result: T) => void,
  ): void {
    const told = plane.done ? result.then(value => recorded(request, value)) : result
    const fail = (error: unknown) => void reply.send(error)
    told.then(send, fail).catch(error => cut(error, request, reply))
  }

  function send(reply: FastifyReply, result: unknown): void {
    reply.status(status)
    if (result instanceof JsonText) void reply.type('application/json; charset=utf-8').send(result.bytes)
    else void reply.send(result)
  }

  function sendNow(request: FastifyRequest, reply: FastifyReply, result: unknown): void {
    try {
      send(reply, result)
    } catch (error) {
      cut(error, request, reply)
    }
  }

  /** An answer that cannot even be begun: whatever it was, it must not end the process. */
  function cut(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    unsendable(error, request.id)
    reply.raw.destroy()
  }

  async function recorded<T>(request: FastifyRequest, result: T): Promise<T> {
    const exchange = exchangeOf(request)
    await plane.done!(route, exchange.who as Who, exchange, route.raw ? undefined : result)
    return result
  }
}

/** The framework calls the rest of a path `*`, and leaves out the slash at its end, which is part of a name. */
function namePath(request: FastifyRequest, _reply: FastifyReply, next: () => void): void {
  const params = request.params as Record<string, string>
  const rest = params['*'] ?? ''
  params['path'] = exchangeOf(request).path.endsWith('/') && !rest.endsWith('/') ? `${rest}/` : rest
  next()
}

const isSource = (body: RawReply['body']): body is ByteSource =>
  body !== null && typeof body === 'object' && 'next' in body

const inputOf = (request: FastifyRequest) => request as unknown as Input<Route>
