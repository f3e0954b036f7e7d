// One call of a function: its quotas, a worker for it, and its lines in the log.
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { RateWindows } from '#src/kernel/http/rate-windows.ts'
import type { RawReply, RawRequest } from '#src/kernel/http/request.ts'
import type { SocketRequest } from '#src/kernel/http/sockets.ts'
import { traceIdOf } from '#src/kernel/http/trace-context.ts'
import type { LogsService } from '#src/services/logs/service.ts'
import type { UsageService } from '#src/services/usage/service.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { FindCallable } from './callable.ts'
import type { CodeCache } from './code-cache.ts'
import { requestHeaders } from './headers.ts'
import { isWorkerAddress } from './platform-socket.ts'
import type { Lease, Runtime } from './runtime.ts'
import { openTunnel } from './socket-call.ts'
import type { FunctionRow } from './store.ts'
import { type CallContext, callWorker } from './worker-call.ts'

export interface CallDeps {
  findCallable: FindCallable
  codeCache: CodeCache
  runtime: Runtime
  windows: RateWindows
  logs: LogsService
  usage: Pick<UsageService, 'countInvocation'>
  baseUrl(): string
  requestTimeoutMs: number
}

const defaults = { callsPerMinute: 6000, concurrency: 20, responseMb: 20 }

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
    const found = deps.findCallable(tenant)
    const callable = found instanceof Promise ? await found : found
    const row = callable.functions.get(name)
    if (!row) throw new Refusal('NOT_FOUND', `This project has no function ${JSON.stringify(name)}`)
    countCall(tenant)
    const leave = enter(tenant)
    deps.usage.countInvocation(tenant.id)
    const startedAt = performance.now()
    const traceId = traceIdOf(request.headers['traceparent'])
    let lease: Lease | undefined
    let hasEnded = false
    const append = (event: 'start' | 'end', level: string, message: string, facts: () => object) =>
      logs.append(tenant.id, () => ({
        source: 'functions',
        name,
        at: new Date().toISOString(),
        level,
        event,
        message,
        request_id: request.id,
        facts: { version: row.version, method: request.method, trace_id: traceId, ...facts() },
      }))
    const end = (status: number) => {
      if (hasEnded) return
      hasEnded = true
      leave()
      append('end', status >= 500 ? 'error' : 'info', `${request.method} ${status}`, () => ({
        status,
        duration_ms: rounded(performance.now() - startedAt),
        ...(lease && { is_cold: lease.isCold, memory_mb: rounded(lease.worker.memoryMb) }),
      }))
    }
    append('start', 'info', request.method, () => ({}))
    try {
      const fetched = deps.codeCache.fetch(tenant.id, row)
      const entry = entryOf(row, fetched instanceof Promise ? await fetched : fetched)
      const first = { name, version: String(row.version), entry, usesNode: row.uses_node }
      const leased = deps.runtime.lease(tenant, callable.fingerprint, first)
      lease = leased instanceof Promise ? await leased : leased
      const maxBytes = (tenant.quotas.function_response_mb ?? defaults.responseMb) * 1024 * 1024
      const { target, headers } = requestHeaders({
        request,
        caller,
        row,
        entry,
        baseUrl: deps.baseUrl(),
        keep,
      })
      const isFromOutside = !isWorkerAddress(request.ip)
      return await run(lease, { name, isFromOutside, target, headers, maxBytes }, end)
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

const entries = new WeakMap<FunctionRow, string>()

/** The URL of the module, made once for each version. */
function entryOf(row: FunctionRow, directory: string): string {
  const known = entries.get(row)
  if (known !== undefined) return known
  const entry = pathToFileURL(join(directory, 'build', row.entrypoint)).href
  entries.set(row, entry)
  return entry
}

const rounded = (value: number) => Math.round(value * 10) / 10
