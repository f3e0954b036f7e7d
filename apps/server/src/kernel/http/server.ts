// The web framework lives in this folder alone.
import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { addresses } from '@plinth/contract/openapi.ts'
import { type Input, prefix, type Route, type Routes } from '@plinth/contract/route.ts'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { exchangeOf } from './exchange.ts'
import { failureFrom } from './failure.ts'
import type { Handlers, Plane } from './plane.ts'
import type { RawReply, RawRequest, RequestHead } from './request.ts'
import { validatorCompiler } from './validation.ts'

export interface HttpServer {
  mount<T extends Routes, Who>(plane: Plane<Who>, routes: T, handlers: Handlers<T, Who>): void
  /** Answers everything under a plane's prefix that no route takes. */
  mountUnknown<Who>(plane: Plane<Who>, route: Route, answer: (who: Who) => never): void
  listen(host: string, port: number): Promise<string>
  /** Stops accepting, lets what is in flight finish within the grace, then cuts what is left. */
  close(graceMs: number): Promise<void>
}

const requestIdFromProxy = /^[\w.:-]{8,128}$/

export function createHttpServer({
  log,
  trustedProxies,
}: {
  log: Log
  trustedProxies: readonly string[]
}): HttpServer {
  const trusts = trustedProxies.length > 0
  const app = Fastify({
    logger: false,
    trustProxy: trusts ? [...trustedProxies] : false,
    genReqId: request => {
      const given = request.headers['x-request-id']
      return trusts && typeof given === 'string' && requestIdFromProxy.test(given) ? given : randomUUID()
    },
    requestIdHeader: false,
    requestTimeout: 300_000,
    clientErrorHandler: refuseMalformed,
    routerOptions: { maxParamLength: 2048, ignoreTrailingSlash: true, caseSensitive: true },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) =>
      refuseOutside(error, request as FastifyRequest, reply as FastifyReply),
  })
  app.decorateRequest('exchange', null)
  app.setValidatorCompiler(validatorCompiler())
  const json = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  // Clients declare JSON on requests without a body, too.
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) =>
    body === '' ? done(null, undefined) : json(request, body as string, done),
  )
  app.setNotFoundHandler((request, reply) =>
    refuseOutside(new Refusal('route_not_found', 'There is nothing at this address'), request, reply),
  )
  app.setErrorHandler((error, request, reply) => refuseOutside(error, request, reply))
  app.addHook('onRequest', (request, reply, next) => {
    reply.header('x-request-id', request.id)
    next()
  })
  app.addHook('onResponse', (request, reply, next) => {
    // The route's pattern, never the URL: paths and queries can carry tokens.
    const { url: route = 'none' } = request.routeOptions
    log.info(
      {
        id: request.id,
        method: request.method,
        route,
        status: reply.statusCode,
        ms: Math.round(reply.elapsedTime * 10) / 10,
      },
      'request',
    )
    next()
  })

  function refuseOutside(error: unknown, request: FastifyRequest, reply: FastifyReply) {
    const { status, message, code } = failureFrom(error, log, request.id)
    return reply.status(status).header('x-request-id', request.id).send({ error: { message, code } })
  }

  /** The parts every route of a plane has in common. */
  function frame<Who>(plane: Plane<Who>, route: Route) {
    return {
      bodyLimit: route.bodyLimit ?? plane.bodyLimit,
      errorHandler: (error: unknown, request: FastifyRequest, reply: FastifyReply) => {
        const failure = failureFrom(error, log, request.id)
        const { body, headers } = plane.refuse(failure, exchangeOf(request))
        void reply.status(failure.status).headers(failure.headers).headers(headers).send(body)
      },
      // Before the body is read or validated: a stranger learns nothing but 401.
      onRequest: (request: FastifyRequest, reply: FastifyReply, next: (error?: Error) => void) => {
        if (plane.cors) reply.headers(plane.cors.headers)
        const exchange = exchangeOf(request)
        const admitted = attempt(() =>
          plane.admit(route, exchange, (name, value) => void reply.header(name, value)),
        )
        if (admitted instanceof Promise)
          admitted.then(
            who => {
              exchange.who = who
              next()
            },
            (error: Error) => next(error),
          )
        else if (admitted.error) next(admitted.error)
        else {
          exchange.who = admitted.value
          next()
        }
      },
    }
  }

  return {
    mount(plane, routes, handlers) {
      for (const [name, route] of Object.entries(routes))
        for (const address of addresses(route))
          addRoute(app, plane, route, address, handlers[name] as AnyHandler, {
            ...frame(plane, route),
            exposeHeadRoute: route.method === 'GET' && !declaresHead(routes, route.path),
          })
    },

    mountUnknown(plane, route, answer) {
      const { cors } = plane
      app.register(async scope => {
        takeBodiesAsTheyAre(scope)
        scope.all(`${prefix(route)}/*`, {
          ...frame(plane, route),
          handler: async request => answer(exchangeOf(request).who as never),
        })
      })
      if (cors)
        app.addHook('onRequest', (request, reply, next) => {
          const isPreflight = request.method === 'OPTIONS' && request.headers['access-control-request-method']
          if (!isPreflight || !request.url.startsWith(`${prefix(route)}/`)) return next()
          void reply.status(204).headers(cors.headers).headers(cors.preflight).send()
        })
    },

    listen: (host, port) => app.listen({ host, port }),

    async close(graceMs) {
      const cut = setTimeout(() => app.server.closeAllConnections(), graceMs)
      await app.close()
      clearTimeout(cut)
    },
  }
}

const declaresHead = (routes: Routes, path: string) =>
  Object.values(routes).some(route => route.method === 'HEAD' && route.path === path)

/** What is not even HTTP never becomes a request; it is answered on the socket. */
function refuseMalformed(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy()
  const [status, message] =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? ['431 Request Header Fields Too Large', 'The headers are larger than 16 kB']
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? ['408 Request Timeout', 'The request took too long to arrive']
        : ['400 Bad Request', 'This is not a valid HTTP request']
  const body = JSON.stringify({ error: { message, code: 'invalid_request' } })
  socket.end(
    `HTTP/1.1 ${status}\r\nX-Request-Id: ${randomUUID()}\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  )
}

type AnyHandler = (input: Input<Route>, who: unknown, request: RequestHead | RawRequest) => unknown

function addRoute<Who>(
  app: FastifyInstance,
  plane: Plane<Who>,
  route: Route,
  address: string,
  handle: AnyHandler,
  common: object,
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
  if (!route.raw)
    return void app.route({
      ...options,
      handler: async (request, reply) => {
        const exchange = exchangeOf(request)
        const result = await handle(inputOf(request), exchange.who, exchange)
        if (plane.done) await plane.done(route, exchange.who as Who, exchange, result)
        reply.status(status)
        return status === 204 ? reply.send() : result
      },
    })
  void app.register(async scope => {
    takeBodiesAsTheyAre(scope)
    scope.route({
      ...options,
      handler: async (request, reply) => {
        const exchange = exchangeOf(request)
        const result = (await handle(inputOf(request), exchange.who, exchange)) as RawReply
        if (plane.done) await plane.done(route, exchange.who as Who, exchange, undefined)
        return reply
          .status(result.status)
          .headers(result.headers ?? {})
          .send(result.body ?? undefined)
      },
    })
  })
}

/** No parser touches the body: the handler reads the stream, or nobody does. */
function takeBodiesAsTheyAre(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
}

const inputOf = ({ params, query, body }: FastifyRequest) => ({ params, query, body }) as Input<Route>

function attempt<T>(
  work: () => T | Promise<T>,
): Promise<T> | { value: T; error?: never } | { value?: never; error: Error } {
  try {
    const value = work()
    return value instanceof Promise ? value : { value }
  } catch (error) {
    return { error: error as Error }
  }
}
