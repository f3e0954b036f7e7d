// The web framework lives in this folder alone.
import { type IncomingMessage, METHODS, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { addresses } from '@plinth/contract/openapi.ts'
import { prefix, type Route, type Routes } from '@plinth/contract/route.ts'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { paceReading } from '#src/kernel/paced-reading.ts'
import { TakeableRequest } from './body.ts'
import { exchangeOf } from './exchange.ts'
import { failureFrom } from './failure.ts'
import { maxHeaderSize, refuseMalformed } from './malformed.ts'
import type { Failure, Handlers, Plane } from './plane.ts'
import type { RequestHead } from './request.ts'
import { newRequestId } from './request-id.ts'
import { RequestPieces } from './request-pieces.ts'
import { type AnyHandler, addRoute } from './route.ts'
import { createSockets, type SocketMount } from './sockets.ts'
import { bodyChecks, serializerCompiler, validatorCompiler } from './validation.ts'

export interface HttpServer {
  mount<T extends Routes, Who>(plane: Plane<Who>, routes: T, handlers: Handlers<T, Who>): void
  /** Answers everything under a plane's prefix that no route takes. */
  mountUnknown<Who>(plane: Plane<Who>, route: Route, answer: (request: RequestHead) => never): void
  /** WebSockets at these addresses; whoever asks there for anything else is told so. */
  mountSocket<Who>(mount: SocketMount<Who>): void
  listen(host: string, port: number): Promise<string>
  /** Stops accepting, lets what is in flight finish within the grace, then cuts what is left. */
  close(graceMs: number): Promise<void>
}

const allowOrigin = 'access-control-allow-origin'
/** A client that takes nothing of its answer is cut after once or twice this: meanwhile the answer is in memory. */
const stalledMs = 15_000
const requestIdFromProxy = /^[\w.:-]{8,128}$/

interface HttpOptions {
  log: Log
  trustedProxies: readonly string[]
  /** The body of a refusal that no plane could word, since the request reached none. */
  wordOutside(failure: Failure, path: string): unknown
}

export function createHttpServer({ log, trustedProxies, wordOutside }: HttpOptions): HttpServer {
  const trusts = trustedProxies.length > 0
  const requestId = ({ headers }: Pick<IncomingMessage, 'headers'>): string => {
    const given = trusts ? headers['x-request-id'] : undefined
    return typeof given === 'string' && requestIdFromProxy.test(given) ? given : newRequestId()
  }
  const sockets = createSockets(log, requestId)
  const app = Fastify({
    logger: false,
    trustProxy: trusts ? [...trustedProxies] : false,
    genReqId: requestId,
    requestIdHeader: false,
    requestTimeout: 300_000,
    connectionTimeout: stalledMs,
    clientErrorHandler: refuseMalformed,
    // Node's own refusal would carry no request id; ours is in `frame`.
    http: {
      requireHostHeader: false,
      maxHeaderSize,
      IncomingMessage: TakeableRequest,
      shouldUpgradeCallback: sockets.takes,
    },
    routerOptions: { maxParamLength: maxHeaderSize, ignoreTrailingSlash: true, caseSensitive: true },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) =>
      refuseOutside(error, request as FastifyRequest, reply as FastifyReply),
  })
  // Every method Node can read reaches a plane, and its own words, also the ones no route will ever take; bodies are read
  // in route.ts.
  for (const method of METHODS)
    if (method !== 'CONNECT') app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  app.server.on('connection', socket => paceReading(socket, new RequestPieces(socket)))
  app.server.on('timeout', cutUnlessAtWork)
  app.server.on('upgrade', sockets.upgrade)
  app.decorateRequest('exchange', null)
  app.setValidatorCompiler(validatorCompiler())
  app.setSerializerCompiler(serializerCompiler())
  const checkOf = bodyChecks()
  app.setNotFoundHandler((request, reply) =>
    refuseOutside(new Refusal('route_not_found', 'There is nothing at this address'), request, reply),
  )
  app.setErrorHandler((error, request, reply) => refuseOutside(error, request, reply))

  const unsendable = (error: unknown, id: string) =>
    log.error({ id, err: error }, 'an answer could not be sent')
  const outside = logLine(log, 'none')
  function refuseOutside(error: unknown, request: FastifyRequest, reply: FastifyReply) {
    reply.raw.once('finish', () => outside(request, reply, () => {}))
    const failure = failureFrom(error, log, request.id)
    const body = wordOutside(failure, request.url)
    return reply.status(failure.status).header('x-request-id', request.id).send(body)
  }

  /** What every route of a plane has in common: admission before the body, and refusals in the plane's words. */
  function frame<Who>(plane: Plane<Who>, route: Route, address: string) {
    const { cors } = plane
    return {
      onResponse: logLine(log, address),
      errorHandler(error: unknown, request: FastifyRequest, reply: FastifyReply) {
        const failure = failureFrom(error, log, request.id)
        const { body, headers } = plane.refuse(failure, exchangeOf(request))
        void reply.status(failure.status).headers(failure.headers).headers(headers).send(body)
      },
      onRequest(request: FastifyRequest, reply: FastifyReply, next: (error?: Error) => void) {
        reply.header('x-request-id', request.id)
        if (cors) {
          if (request.headers.origin === undefined) reply.header(allowOrigin, cors.headers[allowOrigin])
          else reply.headers(cors.headers)
          if (request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined)
            return void reply.status(204).headers(cors.preflight).send()
        }
        const exchange = exchangeOf(request, reply)
        let who: Who | Promise<Who>
        try {
          if (request.headers.host === undefined && request.raw.httpVersionMinor === 1) throw withoutHost()
          who = plane.admit(route, exchange, (name, value) => void reply.header(name, value))
        } catch (error) {
          return next(error as Error)
        }
        if (!(who instanceof Promise)) {
          exchange.who = who
          return next()
        }
        who.then(
          known => {
            exchange.who = known
            next()
          },
          (error: Error) => next(error),
        )
      },
    }
  }

  return {
    mount(plane, routes, handlers) {
      for (const [name, route] of Object.entries(routes))
        for (const address of addresses(route)) {
          const needsHead = route.method === 'GET' && !declaresHead(routes, route.path)
          const add = (route: Route, exposeHeadRoute: boolean) =>
            addRoute(app, {
              plane,
              route,
              address,
              handle: handlers[name] as AnyHandler,
              checkBody: route.body && !route.raw ? checkOf(route.body) : undefined,
              common: { ...frame(plane, route, address), exposeHeadRoute },
              unsendable,
            })
          add(route, needsHead && !route.raw)
          // The framework's own would say that there is nothing where the handler has left out the bytes.
          if (needsHead && route.raw) add({ ...route, method: 'HEAD' } as Route, false)
        }
    },

    mountUnknown(plane, route, answer) {
      for (const address of [prefix(route), `${prefix(route)}/*`])
        app.all(address, {
          ...frame(plane, route, address),
          handler: async request => answer(exchangeOf(request)),
        })
    },

    mountSocket(mount) {
      sockets.mount(mount)
      for (const address of mount.addresses)
        app.get(address.replace(/\{(\w+)\}/g, ':$1'), {
          exposeHeadRoute: false,
          onResponse: logLine(log, address),
          handler(request, reply) {
            const failure = failureFrom(upgradeRequired(), log, request.id)
            const headers = { ...failure.headers, 'x-request-id': request.id, [allowOrigin]: '*' }
            return reply.status(failure.status).headers(headers).send(mount.refuse(failure))
          },
        })
    },

    listen: (host, port) => app.listen({ host, port }),

    async close(graceMs) {
      const cut = setTimeout(() => app.server.closeAllConnections(), graceMs)
      // A connection kept alive counts as open until its client lets go of it.
      const tidy = setInterval(() => app.server.closeIdleConnections(), 50)
      await Promise.all([sockets.close(graceMs), app.close()])
      clearTimeout(cut)
      clearInterval(tidy)
    },
  }
}

const logLine =
  (log: Log, route: string) => (request: FastifyRequest, reply: FastifyReply, next: () => void) => {
    log.answered(route, request.id, request.method, reply.statusCode, Math.round(reply.elapsedTime * 10) / 10)
    next()
  }

const upgradeRequired = () =>
  new Refusal('upgrade_required', 'This address is a WebSocket; connect with a client that can upgrade', {
    headers: { upgrade: 'websocket' },
  })

const withoutHost = () => new Refusal('invalid_request', 'The Host header is missing')

const declaresHead = (routes: Routes, path: string) =>
  Object.values(routes).some(route => route.method === 'HEAD' && route.path === path)

/** Nothing has gone either way for a while. An answer that is still being made is waited for; the rest is over. */
function cutUnlessAtWork(socket: Socket): void {
  // Node's own name for what the connection is busy with.
  const { _httpMessage: answer } = socket as Socket & { _httpMessage?: ServerResponse | null }
  if (answer && !answer.writableEnded && socket.writableLength === 0) socket.setTimeout(stalledMs)
  else socket.destroy()
}
