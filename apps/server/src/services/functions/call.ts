// One call of a function: quotas, the request to the worker, its answer, and the lines in the log.
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import type { ErrorCode } from '@plinth/contract/errors.ts'
import type { ByteSource } from '#src/kernel/byte-source.ts'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { SocketRequest } from '#src/kernel/http/sockets.ts'
import type { LogsService } from '#src/services/logs/service.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { FindCallable } from './callable.ts'
import type { CodeCache } from './code-cache.ts'
import { answerHeaders, requestHeaders } from './headers.ts'
import type { Lease, Runtime } from './runtime.ts'
import type { Answer, Connection } from './worker/connection.ts'
import { ConnectionLost } from './worker/received-bytes.ts'
import type { Excess } from './worker/usage.ts'
import type { Worker } from './worker/worker.ts'

export interface CallDeps {
  findCallable: FindCallable
  codeCache: CodeCache
  runtime: Runtime
  windows: RateWindows
  logs: LogsService
  baseUrl(): string
  requestTimeoutMs: number
}

const defaults = { callsPerMinute: 6000, concurrency: 20, responseMb: 20 }
/** Bodies up to this length are sent in one piece. */
const maxWholeBody = 64 * 1024

interface CallContext {
  name: string
  headers: readonly string[]
  target: string
  maxBytes: number
}

export type CallFunction = (name: string, caller: Caller, request: RawRequest) => Promise<RawReply>

/** Opens a WebSocket to a function. Returns the status of the answer. */
export type OpenSocket = (
  name: string,
  caller: Caller,
  request: SocketRequest,
  socket: Socket,
  head: Buffer,
) => Promise<number>

export interface Calls {
  call: CallFunction
  openSocket: OpenSocket
}

type Head = Pick<RawRequest, 'id' | 'path' | 'search' | 'headers' | 'ip'>

export function createCalls(deps: CallDeps): Calls {
  const { logs, requestTimeoutMs } = deps
  const running = new Map<string, number>()

  function countCall({ id, quotas }: Tenant): void {
    const limit = quotas.function_invocations_per_minute ?? defaults.callsPerMinute
    const { remaining, retryAfterSeconds } = deps.windows.take(`functions:${id}`, limit, 60_000)
    if (remaining < 0)
      throw retryLater(
        'FUNCTION_RATE_LIMIT',
        `More than ${limit} calls of functions in a minute; try again in ${retryAfterSeconds} seconds`,
        retryAfterSeconds,
        'The operator can raise the quota function_invocations_per_minute of the project.',
      )
  }

  /** Returns a function that ends the count. */
  function enter({ id, quotas }: Tenant): () => void {
    const limit = quotas.function_concurrency ?? defaults.concurrency
    const before = running.get(id) ?? 0
    if (before >= limit)
      throw retryLater(
        'FUNCTION_CONCURRENCY',
        `${limit} calls of functions are running already; try again in a second`,
        1,
        'The operator can raise the quota function_concurrency of the project.',
      )
    running.set(id, before + 1)
    return () => {
      const left = running.get(id)! - 1
      if (left === 0) running.delete(id)
      else running.set(id, left)
    }
  }

  /** Counts the call, and runs it with a worker. `end` records it, once. */
  async function begin<T>(
    name: string,
    caller: Caller,
    request: Head & { method: string },
    keep: readonly string[],
    run: (lease: Lease, context: CallContext, end: (status: number) => void) => Promise<T>,
  ): Promise<T> {
    const { tenant } = caller
    const callable = await deps.findCallable(tenant)
    const row = callable.functions.get(name)
    if (!row) throw new Refusal('NOT_FOUND', `This project has no function ${JSON.stringify(name)}`)
    countCall(tenant)
    const leave = enter(tenant)
    const startedAt = performance.now()
    let lease: Lease | undefined
    let hasEnded = false
    const append = (event: 'start' | 'end', level: string, message: string, facts: object) =>
      logs.append(tenant.id, {
        source: 'functions',
        name,
        at: new Date().toISOString(),
        level,
        event,
        message,
        request_id: request.id,
        facts: { version: row.version, ...facts },
      })
    const end = (status: number) => {
      if (hasEnded) return
      hasEnded = true
      leave()
      append('end', status >= 500 ? 'error' : 'info', `${request.method} ${status}`, {
        status,
        duration_ms: rounded(performance.now() - startedAt),
        ...(lease && { is_cold: lease.isCold, memory_mb: rounded(lease.worker.memoryMb) }),
      })
    }
    append('start', 'info', request.method, {})
    try {
      const directory = await deps.codeCache.fetch(tenant.id, row)
      const entry = pathToFileURL(join(directory, 'build', row.entrypoint)).href
      lease = await deps.runtime.lease(tenant, callable.fingerprint, name)
      const maxBytes = (tenant.quotas.function_response_mb ?? defaults.responseMb) * 1024 * 1024
      const { target, headers } = requestHeaders({
        request,
        caller,
        row,
        entry,
        baseUrl: deps.baseUrl(),
        keep,
      })
      return await run(lease, { name, target, headers, maxBytes }, end)
    } catch (error) {
      end(error instanceof Refusal ? error.status : 500)
      throw error
    }
  }

  return {
    call: (name, caller, request) =>
      begin(name, caller, request, [], (lease, context, end) =>
        callWorker(lease, request, context, requestTimeoutMs, end),
      ),
    openSocket: (name, caller, request, socket, head) =>
      begin(name, caller, { ...request, method: 'GET' }, ['connection', 'upgrade'], (lease, context, end) =>
        openTunnel(lease, context, { socket, head, timeoutMs: requestTimeoutMs, requestId: request.id }, end),
      ),
  }
}

const rounded = (value: number) => Math.round(value * 10) / 10

interface ClientSide {
  socket: Socket
  /** Bytes that the client has sent after the handshake. */
  head: Buffer
  timeoutMs: number
  requestId: string
}

async function openTunnel(
  { worker, release }: Lease,
  context: CallContext,
  { socket, head, timeoutMs, requestId }: ClientSide,
  end: (status: number) => void,
): Promise<number> {
  const call = worker.begin(context.name)
  const over = (status: number) => {
    call.done()
    end(status)
    void release()
  }
  let connection: Connection | undefined
  try {
    connection = await call.connect()
    const { target, headers } = context
    const opened = await within(connection.upgrade({ method: 'GET', target, headers }), timeoutMs, () =>
      connection!.close(),
    )
    const { status, headers: answered, outcome } = answerHeaders('answer' in opened ? opened.answer : opened)
    if (outcome !== undefined) throw failureOf(outcome)
    const lines = Object.entries({ ...answered, 'x-request-id': requestId }).flatMap(([name, value]) =>
      [value].flat().map(each => `${name}: ${each}\r\n`),
    )
    const start = (more: string) =>
      socket.write(
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${more}${lines.join('')}\r\n`,
        'latin1',
      )
    if (!('answer' in opened)) {
      // The function has answered like to any other request.
      start('connection: close\r\n')
      for (let chunks = await opened.read(); chunks.length > 0; chunks = await opened.read())
        for (const chunk of chunks) socket.write(chunk)
      socket.end()
      over(status)
      return status
    }
    start('connection: Upgrade\r\nupgrade: websocket\r\n')
    const { socket: inner, rest } = opened
    socket.setTimeout(0)
    if (rest.length > 0) socket.write(rest)
    if (head.length > 0) inner.write(head)
    inner.on('error', () => {})
    inner.once('close', () => {
      socket.destroy()
      over(status)
    })
    socket.once('close', () => inner.destroy())
    socket.pipe(inner)
    inner.pipe(socket)
    return status
  } catch (error) {
    connection?.close()
    call.done()
    if (isTimeout(error)) void worker.checkAlive()
    const reason = error instanceof ConnectionLost ? await reasonOf(worker) : error
    await release()
    throw reason
  }
}

/** Resolves when the head of the answer is there. `onEnd` is called when the whole answer has been passed on. */
async function callWorker(
  { worker, release }: Lease,
  request: RawRequest,
  context: CallContext,
  timeoutMs: number,
  onEnd: (status: number) => void,
): Promise<RawReply> {
  const { maxBytes } = context
  const call = worker.begin(context.name)
  let connection: Connection | undefined
  const abort = () => connection?.close()
  request.signal.addEventListener('abort', abort)
  const over = (status: number) => {
    request.signal.removeEventListener('abort', abort)
    call.done(connection)
    onEnd(status)
  }
  try {
    const body = await bodyOf(request)
    connection = await call.connect()
    const head = { method: request.method, target: context.target, headers: context.headers }
    const answer = await within(connection.call(head, body), timeoutMs, () => connection!.close())
    const { status, headers, outcome } = answerHeaders(answer)
    if (outcome !== undefined) throw failureOf(outcome)
    if (answer.whole) {
      if (answer.whole.length > maxBytes) throw tooLong(maxBytes)
      over(status)
      await release()
      return { status, headers, body: answer.whole.length > 0 ? answer.whole : null }
    }
    const limits = { timeoutMs, maxBytes }
    return {
      status,
      headers,
      isReadingRequest: body instanceof Readable,
      body: sourceOf(answer, connection, limits, async () => {
        over(status)
        await release()
      }),
    }
  } catch (error) {
    connection?.close()
    request.signal.removeEventListener('abort', abort)
    call.done(connection)
    if (isTimeout(error)) void worker.checkAlive()
    const reason = error instanceof ConnectionLost ? await reasonOf(worker) : error
    await release()
    throw reason
  }
}

/** Small bodies whole, others as a stream. */
async function bodyOf({ headers, body, method }: RawRequest): Promise<Buffer | Readable | undefined> {
  const length = headers['content-length']
  if (headers['transfer-encoding'] === undefined && (length === undefined || length === '0'))
    return method === 'POST' || method === 'PUT' || method === 'PATCH' ? Buffer.alloc(0) : undefined
  if (length === undefined || Number(length) > maxWholeBody) return body
  const chunks: Buffer[] = []
  for await (const chunk of body as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function within<T>(work: Promise<T>, timeoutMs: number, onTimeout: () => void): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(timedOut(timeoutMs))
      onTimeout()
    }, timeoutMs)
  })
  work.catch(() => {})
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

function sourceOf(
  answer: Answer,
  connection: Connection,
  { timeoutMs, maxBytes }: { timeoutMs: number; maxBytes: number },
  onEnd: () => Promise<void>,
): ByteSource {
  let hasMore = true
  let passed = 0
  let ended: Promise<void> | undefined
  return {
    isLive: true,
    get hasMore() {
      return hasMore
    },
    async next() {
      const chunks = await within(answer.read(), timeoutMs, () => connection.close())
      if (chunks.length === 0) {
        ended ??= onEnd()
        await ended
        hasMore = false
      }
      passed += chunks.reduce((sum, { length }) => sum + length, 0)
      if (passed > maxBytes) throw tooLong(maxBytes)
      return chunks
    },
    async close() {
      if (hasMore) connection.close()
      hasMore = false
      ended ??= onEnd()
      await ended
    },
  }
}

/** Why the worker closed the connection. */
async function reasonOf(worker: Worker): Promise<Refusal> {
  const ending = await Promise.race([
    worker.ended,
    new Promise<undefined>(resolve => setTimeout(() => resolve(undefined), 1000).unref()),
  ])
  if (ending === 'memory' || ending === 'cpu' || ending === 'disk') return overLimit(ending)
  if (ending === 'stopped') return retryLater('WORKER_BUSY', 'The worker was stopped; try again', 1)
  return ofProject('WORKER_ERROR', 'The worker ended during the call; the log of the function has the reason')
}

const ofProject = (code: ErrorCode, message: string, hint = '') =>
  new Refusal(code, message, { hint, isOfProject: true })

const overLimit = (what: Excess) =>
  ofProject(
    'WORKER_LIMIT',
    `The worker was ended, because it used too much ${{ memory: 'memory', cpu: 'CPU time', disk: 'disk space' }[what]}`,
  )

function failureOf(outcome: string): Refusal {
  if (outcome === 'boot')
    return ofProject('BOOT_ERROR', 'The function could not be loaded; its log has the reason')
  if (outcome === 'memory')
    return ofProject('WORKER_LIMIT', 'The function could not get as much memory as it needs')
  return ofProject('WORKER_ERROR', 'The function threw an error; its log has the reason')
}

const isTimeout = (error: unknown) => error instanceof Refusal && error.code === 'IDLE_TIMEOUT'

const timedOut = (timeoutMs: number) =>
  ofProject('IDLE_TIMEOUT', `The function sent nothing for ${timeoutMs / 1000} seconds`)

const tooLong = (maxBytes: number) =>
  ofProject(
    'WORKER_LIMIT',
    `The answer of the function has more than ${maxBytes / 1024 / 1024} MB`,
    'The operator can raise the quota function_response_mb of the project.',
  )
