// Threads that plan requests for large schemas. Building such a schema takes seconds, and so would an answer about it.
import { Worker } from 'node:worker_threads'
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import { threadEnvironment } from '#src/kernel/thread-environment.ts'
import { DocumentProblem } from './compile/problem.ts'
import type { FromThread, ToThread } from './thread-messages.ts'

const memoryMb = 1024
const idleMs = 60_000

/** The thread does not know the engine, because other engines have replaced it or because the thread is new. */
export class UnknownEngine extends Error {
  override readonly name = 'UnknownEngine'
}

export interface ThreadOptions {
  readonly count: number
  /** The code of a thread. */
  readonly code?: URL
  /** Time for each kind of message. Then its thread is ended. */
  readonly maxMs?: Readonly<Record<ToThread['kind'], number>>
}

/** Several times what the largest schema takes that fits into the memory of a thread. */
const defaultMaxMs = { open: 20_000, plan: 10_000, print: 10_000 }

export interface Threads {
  /** All messages of a project go to the same thread. With an aborted signal, a message that still waits is refused. */
  ask(projectId: string, message: ToThread, signal?: AbortSignal): Promise<unknown>
  close(): Promise<void>
}

/** The thread has ended, for example because it ran out of memory. */
class ThreadEnded extends Error {
  override readonly name = 'ThreadEnded'
}
class TimeLimit extends Error {
  override readonly name = 'TimeLimit'
}

interface Running {
  resolve(value: unknown): void
  reject(error: unknown): void
}

/** Runs one message at a time, so that it is known which one ended it. */
class Thread {
  readonly #worker: Worker
  #running: Running | undefined
  #hasEnded = false
  #lastUsed = performance.now()
  /** Engines that take memory of the thread, or have taken it. */
  readonly opened = new Set<string>()

  constructor(code: URL) {
    const resourceLimits = { maxOldGenerationSizeMb: memoryMb }
    this.#worker = new Worker(code, { env: threadEnvironment(), resourceLimits })
    this.#worker.unref()
    this.#worker.on('message', (message: FromThread) => this.#settle(message))
    this.#worker.on('error', error => this.#fail(error))
    this.#worker.on('exit', () => this.#fail())
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get isIdle(): boolean {
    return !this.#running && performance.now() - this.#lastUsed >= idleMs
  }

  async ask(message: ToThread, maxMs: number): Promise<unknown> {
    const answer = new Promise((resolve, reject) => {
      this.#running = { resolve, reject }
    })
    if (message.kind === 'open') this.opened.add(message.engine)
    this.#worker.postMessage(message)
    const timer = setTimeout(() => this.#running?.reject(new TimeLimit()), maxMs)
    try {
      return await answer
    } catch (error) {
      // Waits until the memory is free again.
      if (error instanceof TimeLimit || error instanceof ThreadEnded) await this.end()
      throw error
    } finally {
      clearTimeout(timer)
      this.#running = undefined
      this.#lastUsed = performance.now()
    }
  }

  async end(): Promise<void> {
    this.#hasEnded = true
    await this.#worker.terminate()
  }

  #settle(message: FromThread): void {
    if ('result' in message) this.#running?.resolve(message.result)
    else if ('problem' in message) this.#running?.reject(new DocumentProblem(...message.problem))
    else if ('isUnknownEngine' in message) this.#running?.reject(new UnknownEngine())
    else this.#running?.reject(new Error(message.failure))
  }

  #fail(cause?: Error): void {
    this.#hasEnded = true
    this.#running?.reject(new ThreadEnded('the thread has ended', { cause }))
  }
}

export function createThreads({
  count,
  code = new URL('./thread.ts', import.meta.url),
  maxMs = defaultMaxMs,
}: ThreadOptions): Threads {
  const threads = new Map<number, Thread>()
  // Projects take turns, so that one with many messages delays each message of another one by one of its own.
  const limits = Array.from({ length: count }, () => createLimiter({ concurrency: 1 }))
  let sweep: NodeJS.Timeout | undefined
  let isClosed = false

  function threadAt(place: number): Thread {
    const found = threads.get(place)
    if (found && !found.hasEnded) return found
    if (isClosed) throw new ThreadEnded('the threads are closed')
    const made = new Thread(code)
    threads.set(place, made)
    return made
  }

  async function askAt(place: number, message: ToThread): Promise<unknown> {
    const thread = threadAt(place)
    try {
      return await thread.ask(message, maxMs[message.kind])
    } catch (error) {
      if (error instanceof TimeLimit) throw tooSlow(message, maxMs[message.kind])
      if (!(error instanceof ThreadEnded) || isClosed) throw error
      const isAlone = thread.opened.size === 1 && thread.opened.has(message.engine)
      if (isAlone) throw tooLarge(error)
      // Engines of other projects may have used the memory. A new thread has only this one.
      if (message.kind === 'open') return askAt(place, message)
      throw new UnknownEngine()
    }
  }

  function endIdle(): void {
    for (const [place, thread] of threads) {
      if (!thread.isIdle) continue
      threads.delete(place)
      void thread.end()
    }
    sweep = threads.size > 0 ? setTimeout(endIdle, idleMs).unref() : undefined
  }

  return {
    ask(projectId, message, signal) {
      const place = hashOf(projectId) % count
      const answer = limits[place]!(projectId, async () => {
        if (signal?.aborted) throw new Refusal('client_closed_request', 'The client closed the connection')
        return askAt(place, message)
      })
      sweep ??= setTimeout(endIdle, idleMs).unref()
      return answer
    },
    async close() {
      isClosed = true
      clearTimeout(sweep)
      await Promise.all([...threads.values()].map(thread => thread.end()))
    },
  }
}

const hint = 'Expose fewer schemas in settings.exposed_schemas, or drop what is not used.'

const tooLarge = (cause: Error) =>
  new Refusal('schema_too_large', 'The GraphQL schema of the project needs too much memory', { hint, cause })

const tooSlow = ({ kind }: ToThread, ms: number) =>
  kind === 'plan'
    ? new DocumentProblem(
        `Planning the document takes longer than ${ms / 1000} seconds: ask for fewer fields, or for less about the schema`,
      )
    : new Refusal(
        'schema_too_large',
        `The GraphQL schema of the project takes longer than ${ms / 1000} seconds to ${kind === 'open' ? 'build' : 'print'}`,
        { hint },
      )

function hashOf(text: string): number {
  let hash = 0
  for (const character of text) hash = (hash * 31 + character.codePointAt(0)!) >>> 0
  return hash
}
