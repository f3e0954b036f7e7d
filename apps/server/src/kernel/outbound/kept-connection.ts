// One connection that serves one request after the other. undici writes the requests and parses the answers. The
// connection itself is ours: connect.ts has opened it to a checked address, and undici cannot open another one.
import { Socket } from 'node:net'
import type { Client, Dispatcher } from 'undici'
import { inSlices, isTurnSpent, type Sliced } from '#src/kernel/slices.ts'
import { openSocket, startTls } from './connect.ts'
import { answerTooLarge, closedEarly, tlsFailed } from './post-error.ts'
import type { Address } from './resolve.ts'
import type { HttpTarget } from './target.ts'

export interface ConnectionLimits {
  /** Size of an answer's body. */
  maxBytes: number
  /** Bytes of the network for one answer: heads, informational answers, chunk sizes, trailers, TLS records. */
  maxReadBytes: number
  /** Size of an answer's head, and of its trailers. */
  maxHeadBytes: number
  /** How long an unused connection stays open. A server may ask for less with the header `keep-alive`. */
  idleMs: number
}

/** The connection closes this long before the server would close it. */
const closeBeforeServerMs = 1000

/** The parser gets at most this many bytes at a time. They have at most 340 chunks of one byte. */
const pieceBytes = 2048
/** Parsing time of one slice, as in paced-reading.ts. */
const sliceMs = 0.5

/** Servers send two session tickets after the handshake. Each costs an event, and TLS itself has no limit. */
const maxSessionTickets = 16

const { read } = Socket.prototype

export class KeptConnection {
  readonly origin: string
  /** The address that it is connected to. */
  readonly address: string
  /** Whether an earlier request was sent on it. */
  isUsed = false
  /** Whether a byte of the current answer has arrived. */
  hasAnswerBytes = false
  readonly #socket: Socket
  /** The connection below TLS. */
  readonly #network: Socket
  readonly #client: Client
  readonly #limits: ConnectionLimits
  #isAwaitingAnswer = false
  #bytesBeforeAnswer = 0
  #isInSlices = false
  #sliceEndsAt = 0

  constructor(
    Client: ClientClass,
    origin: string,
    sockets: { network: Socket; socket: Socket },
    limits: ConnectionLimits,
  ) {
    this.origin = origin
    this.address = sockets.network.remoteAddress ?? ''
    this.#network = sockets.network
    this.#socket = sockets.socket
    this.#limits = limits
    this.#socket.read = () => this.#read()
    let isHandedOver = false
    this.#client = new Client(origin, {
      connect: (_options, done) => {
        if (isHandedOver) return done(closedEarly(), null)
        isHandedOver = true
        // Called back in the same turn, the client would not send the request.
        queueMicrotask(() => done(null, this.#socket))
      },
      pipelining: 1,
      // deadlines.ts ends requests.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: limits.idleMs,
      keepAliveMaxTimeout: limits.idleMs,
      keepAliveTimeoutThreshold: closeBeforeServerMs,
      maxHeaderSize: limits.maxHeadBytes,
      maxResponseSize: limits.maxBytes,
    })
  }

  onClose(listener: () => void): void {
    this.#socket.once('close', listener)
  }

  /** Whether a further request may be sent. */
  get isReady(): boolean {
    const socket = this.#socket
    // A server that answers without reading would let requests pile up in the memory of this side.
    return !socket.destroyed && socket.writable && socket.readableLength === 0 && socket.writableLength === 0
  }

  get hasServerClosed(): boolean {
    return this.#socket.readableEnded
  }

  /** The handler must call `requestSent` and `answerEnded`. */
  dispatch(request: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.hasAnswerBytes = false
    this.#client.dispatch(request, handler)
  }

  requestSent(): void {
    this.#isAwaitingAnswer = true
    this.#bytesBeforeAnswer = this.#network.bytesRead
  }

  answerEnded(): void {
    this.#isAwaitingAnswer = false
    this.isUsed = true
  }

  /** Fails the request that is running on it. */
  destroy(): Promise<void> {
    this.#socket.destroy()
    return this.#client.destroy()
  }

  /** Replaces `read` of the socket, which the client calls until it returns null. */
  #read(): Buffer | null {
    const socket = this.#socket
    const length = socket.readableLength
    if (length === 0) return read.call(socket)
    if (!this.#isAwaitingAnswer) return this.#refuse(closedEarly())
    const { maxReadBytes } = this.#limits
    if (this.#network.bytesRead - this.#bytesBeforeAnswer > maxReadBytes)
      return this.#refuse(answerTooLarge(maxReadBytes))
    if (this.#isInSlices) {
      if (performance.now() > this.#sliceEndsAt) return null
    } else if (isTurnSpent()) {
      void inSlices(this.#readInSlices())
      return null
    }
    this.hasAnswerBytes = true
    return length > pieceBytes ? read.call(socket, pieceBytes) : read.call(socket)
  }

  #refuse(error: Error): null {
    this.#socket.destroy(error)
    return null
  }

  *#readInSlices(): Sliced<void> {
    this.#isInSlices = true
    // The first slice waits too, because many connections may receive data in the same turn.
    yield
    while (!this.#socket.destroyed && this.#socket.readableLength > 0) {
      this.#sliceEndsAt = performance.now() + sliceMs
      this.#socket.emit('readable')
      this.#sliceEndsAt = 0
      yield
    }
    this.#isInSlices = false
  }
}

type ClientClass = typeof Client

/**
 * Only the client, and only when it is needed: the whole package takes 26 MB, and replaces the dispatcher of the global
 * `fetch`.
 */
async function loadClient(): Promise<ClientClass> {
  const path: string = 'undici/lib/dispatcher/client.js'
  return (await import(path)).default
}

/** Rejects with OutboundError, PostError or the reason of the signal. */
export async function openConnection(
  { host, port, isTls, origin }: HttpTarget,
  addresses: readonly Address[],
  limits: ConnectionLimits,
  signal: AbortSignal,
): Promise<KeptConnection> {
  const Client = await loadClient()
  const network = await openSocket(addresses, { host, port, signal })
  network.setNoDelay()
  const socket = isTls ? await secured(network, host, signal) : network
  return new KeptConnection(Client, origin, { network, socket }, limits)
}

function secured(network: Socket, host: string, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = startTls(network, host)
    const abort = () => {
      reject(signal.reason)
      network.destroy()
    }
    const fail = (error?: unknown) => {
      signal.removeEventListener('abort', abort)
      reject(tlsFailed(error))
      network.destroy()
    }
    let sessionTickets = 0
    socket.on('session', () => {
      if (++sessionTickets > maxSessionTickets) socket.destroy(answerTooLarge(maxSessionTickets))
    })
    // Without a listener, an error at any time would end the process.
    socket.on('error', () => {})
    socket.once('error', fail)
    socket.once('close', fail)
    socket.once('secureConnect', () => {
      signal.removeEventListener('abort', abort)
      socket.off('error', fail)
      socket.off('close', fail)
      resolve(socket)
    })
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
}
