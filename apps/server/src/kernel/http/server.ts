// The HTTP server: routes, admission, errors and the record of each answer. Only this folder imports the web framework.

import { type IncomingMessage, METHODS, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { addresses } from '@plinth/contract/openapi.ts'
import { prefix, type Route, type Routes } from '@plinth/contract/route.ts'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { startChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Log } from '#src/kernel/log.ts'
import { paceReading } from '#src/kernel/paced-reading.ts'
import { createAnswerObserver } from './answer-observer.ts'
import { DirectBodyRequest } from './body.ts'
import { createClientAddress } from './client-address.ts'
import { exchangeOf } from './exchange.ts'
import { failureFrom, isOfPlatform } from './failure.ts'
import { maxHeaderSize, refuseMalformed } from './malformed.ts'
import type { Observe } from './observation.ts'
import type { Failure, Handlers, Plane } from './plane.ts'
import type { RequestHead } from './request.ts'
import { newRequestId } from './request-id.ts'
import { RequestPieces } from './request-pieces.ts'
import { type AnyHandler, addRoute } from './route.ts'
import { createSockets, type SocketMount, type Sockets, type TunnelMount } from './sockets.ts'
import { listenOnSocket, type SocketGuard } from './unix-listener.ts'
import { bodyChecks, serializerCompiler, validatorCompiler } from './validation.ts'

export interface HttpServer {
  /** The name of the service is in the record of each answer. */
  mount<T extends Routes, Who>(
    service: string,
    plane: Plane<Who>,
    routes: T,
    handlers: Handlers<T, Who>,
  ): void
  /** Answers every path under a plane's prefix that no route matches. */
  mountUnknown<Who>(plane: Plane<Who>, route: Route, answer: (request: RequestHead) => never): void
  /** Accepts WebSockets at these paths. Other requests to them get 426. */
  mountSocket<Who>(service: string, mount: SocketMount<Who>): void
  /** Passes connections that ask for a WebSocket on, at paths that have routes as well. */
  mountTunnel<Who>(service: string, mount: TunnelMount<Who>): void
  /** Serves requests on a Unix socket as well, if the guard lets them pass. Returns a function that ends it. */
  listenOnSocket(path: string, guard: SocketGuard): Promise<() => Promise<void>>
  countSockets: Sockets['count']
  listen(host: string, port: number): Promise<string>
  /** Stops accepting, waits up to `graceMs` for requests in flight, then closes the remaining connections. */
  close(graceMs: number): Promise<void>
}

const allowOrigin = 'access-control-allow-origin'
/** A client that does not read its answer is disconnected after one to two of these, because the answer takes memory. */
const stalledMs = 15_000
const requestIdFromProxy = /^[\w.:-]{8,128}$/

interface HttpOptions {
  log: Log
  observe: Observe
  trustedProxies: readonly string[]
  /** The body of a failure of a request that reached no plane. */
  formatUnrouted(failure: Failure, path: string): unknown
}

export function createHttpServer({ log, observe, trustedProxies, formatUnrouted }: HttpOptions): HttpServer {
  const trustsProxies = trustedProxies.length > 0
  const requestId = ({ headers }: Pick<IncomingMessage, 'headers'>): string => {
    const given = trustsProxies ? headers['x-request-id'] : undefined
    return typeof given === 'string' && requestIdFromProxy.test(given) ? given : newRequestId()
  }
  const sockets = createSockets(log, observe, requestId, createClientAddress(trustedProxies))
  const app = Fastify({
    logger: false,
    trustProxy: trustsProxies ? [...trustedProxies] : false,
    genReqId: requestId,
    requestIdHeader: false,
    requestTimeout: 300_000,
    connectionTimeout: stalledMs,
    clientErrorHandler: refuseMalformed,
    // Checked in `hooks` instead, because Node's own answer would have no request id.
    http: {
      requireHostHeader: false,
      maxHeaderSize,
      IncomingMessage: DirectBodyRequest,
      shouldUpgradeCallback: sockets.shouldUpgrade,
    },
    routerOptions: { maxParamLength: maxHeaderSize, ignoreTrailingSlash: true, caseSensitive: true },
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) =>
      refuseUnrouted(error, request as FastifyRequest, reply as FastifyReply),
  })
  // Every method that Node parses reaches a plane, so that the plane formats the error. The framework reads no bodies
  // (route.ts).
  for (const method of METHODS)
    if (method !== 'CONNECT') app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  app.server.on('connection', socket => paceReading(socket, new RequestPieces(socket)))
  app.server.on('timeout', closeStalled)
  app.server.on('upgrade', sockets.upgrade)
  app.decorateRequest('exchange', null)
  app.setValidatorCompiler(validatorCompiler())
  app.setSerializerCompiler(serializerCompiler())
  const checkOf = bodyChecks()
  app.setNotFoundHandler((request, reply) =>
    refuseUnrouted(new Refusal('route_not_found', 'There is nothing at this address'), request, reply),
  )
  app.setErrorHandler((error, request, reply) => refuseUnrouted(error, request, reply))

  const onSendFailure = (error: unknown, id: string) => {
    if (error instanceof Refusal && !isOfPlatform(error)) return
    log.error({ id, err: error }, 'an answer could not be sent')
  }
  const observed = createAnswerObserver(observe)
  const observeUnrouted = observed('none', 'none')
  function refuseUnrouted(error: unknown, request: FastifyRequest, reply: FastifyReply) {
    observeUnrouted(request, reply)
    const failure = failureFrom(error, log, request.id)
    const body = formatUnrouted(failure, request.url)
    return reply.status(failure.status).header('x-request-id', request.id).send(body)
  }

  /** The hooks of every route of a plane: admission before the body is read, and errors in the plane's format. */
  function hooks<Who>(service: string, plane: Plane<Who>, route: Route, address: string) {
    const { cors } = plane
    const observeAnswer = observed(service, address, plane)
    return {
      errorHandler(error: unknown, request: FastifyRequest, reply: FastifyReply) {
        const failure = failureFrom(error, log, request.id)
        const { body, headers } = plane.refuse(failure, exchangeOf(request))
        void reply.status(failure.status).headers(failure.headers).headers(headers).send(body)
      },
      onRequest(request: FastifyRequest, reply: FastifyReply, next: (error?: Error) => void) {
        observeAnswer(request, reply)
        reply.header('x-request-id', request.id)
        if (cors) {
          if (request.headers.origin === undefined) reply.header(allowOrigin, cors.headers[allowOrigin])
          else reply.headers(cors.headers)
          if (
            cors.preflight &&
            request.method === 'OPTIONS' &&
            request.headers['access-control-request-method'] !== undefined
          )
            return void reply
              .status(204)
              .headers(cors.preflight(request.headers['access-control-request-headers']))
              .send()
        }
        const exchange = exchangeOf(request, reply)
        let who: Who | Promise<Who>
        try {
          if (request.headers.host === undefined && request.raw.httpVersionMinor === 1) throw missingHost()
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
    mount(service, plane, routes, handlers) {
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
              hooks: { ...hooks(service, plane, route, address), exposeHeadRoute },
              onSendFailure,
            })
          add(route, needsHead && !route.raw)
          // The framework's own HEAD route would send the length of the handler's body, which is empty for HEAD.
          if (needsHead && route.raw) add({ ...route, method: 'HEAD' } as Route, false)
        }
    },

    mountUnknown(plane, route, answer) {
      for (const address of [prefix(route), `${prefix(route)}/*`])
        app.all(address, {
          ...hooks('none', plane, route, address),
          handler: async request => answer(exchangeOf(request)),
        })
    },

    mountSocket(service, mount) {
      sockets.mount(service, mount)
      for (const address of mount.addresses) {
        const observeAnswer = observed(service, address)
        app.get(address.replace(/\{(\w+)\}/g, ':$1'), {
          exposeHeadRoute: false,
          handler(request, reply) {
            observeAnswer(request, reply)
            return refuseWithoutUpgrade(mount, request, reply, log)
          },
        })
      }
    },

    mountTunnel: (service, mount) => sockets.mountTunnel(service, mount),

    listenOnSocket: (path, guard) =>
      listenOnSocket(path, guard, {
        onRequest: (request, answer) => app.routing(request, answer),
        shouldUpgrade: sockets.shouldUpgrade,
        onUpgrade: sockets.upgrade,
      }),

    countSockets: sockets.count,

    listen: (host, port) => app.listen({ host, port }),

    close: graceMs => closeServer(app, sockets, graceMs),
  }
}

async function closeServer(app: FastifyInstance, sockets: Sockets, graceMs: number): Promise<void> {
  const timer = setTimeout(() => app.server.closeAllConnections(), graceMs)
  // A keep-alive connection that becomes idle later would stay open until its client closes it.
  const closing = startChore({
    name: 'close idle connections',
    everyMs: 50,
    run: () => app.server.closeIdleConnections(),
  })
  await Promise.all([sockets.close(graceMs), app.close()])
  clearTimeout(timer)
  await closing.stop()
}

function refuseWithoutUpgrade<Who>(
  { refuse }: SocketMount<Who>,
  request: FastifyRequest,
  reply: FastifyReply,
  log: Log,
): FastifyReply {
  const failure = failureFrom(upgradeRequired(), log, request.id)
  const headers = { ...failure.headers, 'x-request-id': request.id, [allowOrigin]: '*' }
  return reply.status(failure.status).headers(headers).send(refuse(failure))
}

const upgradeRequired = () =>
  new Refusal('upgrade_required', 'This address is a WebSocket; connect with a client that can upgrade', {
    headers: { upgrade: 'websocket' },
  })

const missingHost = () => new Refusal('invalid_request', 'The Host header is missing')

const declaresHead = (routes: Routes, path: string) =>
  Object.values(routes).some(route => route.method === 'HEAD' && route.path === path)

/** Closes a connection without traffic, unless its request is still being handled. */
function closeStalled(socket: Socket): void {
  // Node's internal property with the current answer of a connection.
  const { _httpMessage: answer } = socket as Socket & { _httpMessage?: ServerResponse | null }
  if (answer && !answer.writableEnded && socket.writableLength === 0) socket.setTimeout(stalledMs)
  else socket.destroy()
}
