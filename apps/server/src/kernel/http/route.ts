// A declared route and its handler, as the framework wants them.
import type { Input, Route } from '@plinth/contract/route.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Exchange, exchangeOf } from './exchange.ts'
import { parseJsonBody } from './json-body.ts'
import type { Plane } from './plane.ts'
import type { RawReply, RawRequest, RequestHead } from './request.ts'

export type AnyHandler = (input: Input<Route>, who: unknown, request: RequestHead | RawRequest) => unknown

export function addRoute<Who>(
  app: FastifyInstance,
  plane: Plane<Who>,
  route: Route,
  address: string,
  handle: AnyHandler,
  common: object,
  unsendable: (error: unknown, requestId: string) => void,
): void {
  const status = route.status ?? 200
  const options = {
    ...common,
    method: route.method,
    url: address.replace(/\{(\w+)\}/g, ':$1').replace(/:path$/, '*'),
    schema: {
      ...(route.params && { params: route.params }),
      ...(route.query && { querystring: route.query }),
      ...(route.body && !route.raw && { body: route.body }),
      ...(!route.raw && status !== 204 && { response: { [status]: route.reply } }),
    },
  }
  const handler = route.raw ? raw : plane.done ? audited : plain
  if (!route.raw && !route.anyKey) app.route({ ...options, handler })
  else
    void app.register(async scope => {
      if (route.raw) takeBodiesAsTheyAre(scope)
      else takeJson(scope, { anyKey: true })
      scope.route({ ...options, handler })
    })

  async function audited(request: FastifyRequest, reply: FastifyReply) {
    const exchange = exchangeOf(request)
    const result = await handle(inputOf(request), exchange.who, exchange)
    await plane.done!(route, exchange.who as Who, exchange, result)
    return reply.status(status).send(result)
  }

  /** Without anything to wait for, the answer goes out in the same turn. */
  function plain(request: FastifyRequest, reply: FastifyReply) {
    const exchange = exchangeOf(request)
    const result = handle(inputOf(request), exchange.who, exchange)
    reply.status(status)
    return result instanceof Promise ? result : reply.send(result)
  }

  /** Answers from where its result comes in: a wait of this function's own would be one more turn. */
  function raw(request: FastifyRequest, reply: FastifyReply): void {
    const exchange = exchangeOf(request)
    const send = ({ status, headers, body }: RawReply) =>
      void reply
        .status(status)
        .headers(headers ?? {})
        .send(body ?? undefined)
    const fail = (error: unknown) => void reply.send(error)
    // An answer that cannot even be begun: whatever it was, it must not end the process.
    const cut = (error: unknown) => {
      unsendable(error, request.id)
      reply.raw.destroy()
    }
    try {
      const result = handle(inputOf(request), exchange.who, exchange) as Promise<RawReply>
      const told = plane.done ? result.then(answer => recorded(exchange, answer)) : result
      told.then(send, fail).catch(cut)
    } catch (error) {
      fail(error)
    }
  }

  async function recorded(exchange: Exchange, answer: RawReply): Promise<RawReply> {
    await plane.done!(route, exchange.who as Who, exchange, undefined)
    return answer
  }
}

/** Bodies are JSON and nothing else. */
export function takeJson(scope: FastifyInstance, options: Parameters<typeof parseJsonBody>[1] = {}): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      done(null, parseJsonBody(body as Buffer, options))
    } catch (error) {
      done(error as Error)
    }
  })
}

/** No parser touches the body: the handler reads the stream, or nobody does. */
export function takeBodiesAsTheyAre(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
}

const inputOf = (request: FastifyRequest) => request as unknown as Input<Route>
