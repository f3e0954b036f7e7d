// Registers a declared route and its handler with the framework. Bodies are read here and not by the framework, whose body
// parsing takes as much time as all other work for a small request.
import type { OutgoingHttpHeaders } from 'node:http'
import type { Input, Route } from '@plinth/contract/route.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ByteSource } from '#src/kernel/byte-source.ts'
import { JsonText } from '#src/kernel/json-text.ts'
import { streamAnswer } from './answer-stream.ts'
import { collectBody } from './body.ts'
import { atEndOfTurn } from './end-of-turn.ts'
import { exchangeOf } from './exchange.ts'
import { defaultMaxValues, jsonFrom } from './json-body.ts'
import type { Plane } from './plane.ts'
import type { RawReply, RawRequest, RequestHead } from './request.ts'

const maxJoinedBytes = 16 * 1024

export type AnyHandler = (input: Input<Route>, who: unknown, request: RequestHead | RawRequest) => unknown

export interface RouteParts<Who> {
  plane: Plane<Who>
  route: Route
  address: string
  handle: AnyHandler
  /** Throws if the body does not match the declared schema. */
  checkBody: ((body: unknown) => void) | undefined
  /** Hooks that all routes of the plane share. */
  hooks: object
  onSendFailure(error: unknown, requestId: string): void
}

export function addRoute<Who>(app: FastifyInstance, parts: RouteParts<Who>): void {
  const { plane, route, address, handle, checkBody, hooks, onSendFailure } = parts
  const status = route.status ?? 200
  const bodyLimit = route.bodyLimit ?? plane.bodyLimit
  const json = { anyKey: route.anyKey === true, maxValues: route.maxValues ?? defaultMaxValues }
  const hasNoBody = route.method === 'GET' || route.method === 'HEAD'
  app.route({
    ...hooks,
    method: route.method,
    url: address.replace(/\{(\w+)\}/g, ':$1').replace(/:path$/, '*'),
    ...(address.endsWith('{path}') && { preValidation: namePath }),
    schema: {
      ...(route.params && { params: route.params }),
      ...(route.query && { querystring: route.query }),
      ...(!route.raw && status !== 204 && { response: { [status]: route.reply } }),
    },
    handler: route.raw ? answerRaw : hasNoBody ? answer : readAndAnswer,
  })

  function readAndAnswer(request: FastifyRequest, reply: FastifyReply): void {
    collectBody(request.raw, request.headers, bodyLimit, (error, bytes) => {
      if (error) return void reply.send(error)
      atEndOfTurn(() => {
        try {
          const body = jsonFrom(request.headers['content-type'], bytes, json)
          if (body instanceof Promise) body.then(answerBody).catch(refuse)
          else answerBody(body)
        } catch (refusal) {
          refuse(refusal)
        }
      })
    })

    function answerBody(body: unknown): void {
      request.body = body
      checkBody?.(body)
      answer(request, reply)
    }
    function refuse(refusal: unknown): void {
      void reply.send(refusal)
    }
  }

  /** A synchronous result is sent at the end of the same turn of the event loop, together with others. */
  function answer(request: FastifyRequest, reply: FastifyReply): void {
    const exchange = exchangeOf(request)
    const result = handle(inputOf(request), exchange.who, exchange)
    if (plane.done || result instanceof Promise)
      settle(request, reply, Promise.resolve(result), value => send(reply, value))
    else atEndOfTurn(() => sendNow(request, reply, result))
  }

  function answerRaw(request: FastifyRequest, reply: FastifyReply): void {
    const exchange = exchangeOf(request)
    const dropRest = () => {
      // The rest of the body is read and dropped, so that the client can receive the answer.
      if (request.raw.complete) return
      request.raw.unpipe()
      request.raw.resume()
    }
    const result = handle(inputOf(request), exchange.who, exchange) as Promise<RawReply>
    const send = ({ status, headers, body, isReadingRequest }: RawReply) => {
      if (isReadingRequest) reply.raw.once('close', dropRest)
      else dropRest()
      reply.status(status)
      if (headers) reply.headers(headers)
      if (isSource(body)) sendSource(request, reply, body)
      else if (Buffer.isBuffer(body) && status !== 204 && status !== 304) sendBytes(reply, body)
      else void reply.send(body ?? undefined)
    }
    settle(request, reply, result, send, dropRest)
  }

  /** Without the framework, which would add a type if there is none. */
  function sendBytes(reply: FastifyReply, body: Buffer): void {
    reply.hijack()
    const headers = reply.getHeaders() as OutgoingHttpHeaders
    headers['content-length'] = body.length
    reply.raw.writeHead(reply.statusCode, headers)
    // Short texts are one write with the head. Bytes would be a second buffer.
    if (body.length <= maxJoinedBytes) reply.raw.end(body.toString('latin1'), 'latin1')
    else reply.raw.end(body)
  }

  function sendSource(request: FastifyRequest, reply: FastifyReply, source: ByteSource): void {
    reply.hijack()
    const { raw, statusCode } = reply
    const head = { status: statusCode, headers: reply.getHeaders() as OutgoingHttpHeaders }
    streamAnswer(source, head, raw, request.raw.socket).catch(error => abortAnswer(error, request, reply))
  }

  /** Sends the answer in the callback of the result. An `await` would delay it by another microtask. */
  function settle<T>(
    request: FastifyRequest,
    reply: FastifyReply,
    result: Promise<T>,
    send: (result: T) => void,
    onFailure?: () => void,
  ): void {
    const completed = plane.done ? result.then(value => runDoneHook(request, value)) : result
    const fail = (error: unknown) => {
      onFailure?.()
      void reply.send(error)
    }
    completed.then(send, fail).catch(error => abortAnswer(error, request, reply))
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
      abortAnswer(error, request, reply)
    }
  }

  /** Handles errors while sending, which would otherwise be unhandled and end the process. */
  function abortAnswer(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
    onSendFailure(error, request.id)
    reply.raw.destroy()
  }

  async function runDoneHook<T>(request: FastifyRequest, result: T): Promise<T> {
    const exchange = exchangeOf(request)
    await plane.done!(route, exchange.who as Who, exchange, route.raw ? undefined : result)
    return result
  }
}

/** Names the wildcard `path`. The framework calls it `*` and removes a slash at its end, which is part of an object name. */
function namePath(request: FastifyRequest, _reply: FastifyReply, next: () => void): void {
  const params = request.params as Record<string, string>
  const rest = params['*'] ?? ''
  params['path'] = exchangeOf(request).path.endsWith('/') && !rest.endsWith('/') ? `${rest}/` : rest
  next()
}

const isSource = (body: RawReply['body']): body is ByteSource =>
  body !== null && typeof body === 'object' && 'next' in body

const inputOf = (request: FastifyRequest) => request as unknown as Input<Route>
