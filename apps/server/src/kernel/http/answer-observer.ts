// Records each answer when it has ended.
import type { Socket } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { nobody, type Observe, roundMs } from './observation.ts'
import type { Plane } from './plane.ts'
import { traceIdOf } from './trace-context.ts'

/** The status in the record if the client disconnected before the answer began. */
const clientClosedRequest = 499

/** Returns a function that records the answer of a request, also if the client disconnects before its end. */
export function createAnswerObserver(observe: Observe) {
  const socketBytes = createSocketBytes()
  return <Who>(service: string, route: string, plane?: Plane<Who>) =>
    (request: FastifyRequest, reply: FastifyReply): void => {
      // The framework measures the time only if it logs.
      const startedAt = performance.now()
      reply.raw.once('close', () => {
        const { exchange, id, method } = request
        const isAdmitted = plane !== undefined && exchange?.who !== undefined
        const { project, role } = isAdmitted ? plane.identify(exchange.who as Who, exchange) : nobody
        const { bytesIn, bytesOut } = socketBytes(request.raw.socket)
        const status = reply.raw.headersSent ? reply.statusCode : clientClosedRequest
        const ms = roundMs(performance.now() - startedAt)
        const traceId = traceIdOf(request.headers['traceparent'])
        const at = Date.now()
        observe({ id, traceId, at, method, project, role, service, route, status, ms, bytesIn, bytesOut })
      })
    }
}

/**
 * Counts the bytes of a connection since its previous answer: head and body, in both directions. Pipelined requests are
 * counted with the next answer, so the sum over a connection is exact.
 */
function createSocketBytes(): (socket: Socket | null) => { bytesIn: number; bytesOut: number } {
  const counted = new WeakMap<Socket, { read: number; written: number }>()
  return socket => {
    if (!socket) return { bytesIn: 0, bytesOut: 0 }
    const total = { read: socket.bytesRead, written: socket.bytesWritten }
    const before = counted.get(socket)
    counted.set(socket, total)
    return {
      bytesIn: total.read - (before?.read ?? 0),
      bytesOut: total.written - (before?.written ?? 0),
    }
  }
}
