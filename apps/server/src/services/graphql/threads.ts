// Threads that plan requests for large schemas. Building such a schema takes seconds, and so would an answer about it.
import { Worker } from 'node:worker_threads'
import { Refusal } from '#src/kernel/errors.ts'
import { createLimiter } from '#src/kernel/limiter.ts'
import { DocumentProblem } from './compile/problem.ts'
import type { FromThread, ToThread } from './thread-messages.ts'

const memoryMb = 1024
const idleMs = 60_000

/** The thread does not know the engine, because it has been replaced by others. */
export class UnknownEngine extends Error {
  override readonly name = 'UnknownEngine'
}

type Message = ToThread extends infer M ? (M extends ToThread ? Omit<M, 'id'> : never) : never

export interface Threads {
  /** All messages of a project go to the same thread. */
  ask(projectId: string, message: Message): Promise<unknown>
  close(): Promise<void>
}

interface Pending {
  resolve(value: unknown): void
  reject(error: unknown): void
}

class Thread {
  readonly #worker = new Worker(new URL('./thread.ts', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: memoryMb },
  })
  readonly #pending = new Map<number, Pending>()
  #lastId = 0
  #lastUsed = performance.now()

  constructor(onEnd: () => void) {
    this.#worker.unref()
    this.#worker.on('message', (message: FromThread) => this.#settle(message))
    this.#worker.on('error', error => this.#fail(error))
    this.#worker.on('exit', () => {
      this.#fail(new Error('the thread has ended'))
      onEnd()
    })
  }

  get isIdle(): boolean {
    return this.#pending.size === 0 && performance.now() - this.#lastUsed >= idleMs
  }

  ask(message: Message): Promise<unknown> {
    const id = ++this.#lastId
    this.#lastUsed = performance.now()
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
      this.#worker.postMessage({ ...message, id })
    })
  }

  end(): Promise<unknown> {
    return this.#worker.terminate()
  }

  #settle(message: FromThread): void {
    const pending = this.#pending.get(message.id)
    this.#pending.delete(message.id)
    if ('result' in message) pending?.resolve(message.result)
    else if ('problem' in message) pending?.reject(new DocumentProblem(...message.problem))
    else if ('isUnknownEngine' in message) pending?.reject(new UnknownEngine())
    else pending?.reject(new Error(message.failure))
  }

  #fail(cause: Error): void {
    for (const { reject } of this.#pending.values())
      reject(
        new Refusal('schema_too_large', 'The GraphQL schema of the project needs too much memory', { cause }),
      )
    this.#pending.clear()
  }
}

export function createThreads(count: number): Threads {
  const threads = new Map<number, Thread>()
  // Projects take turns, so that one whose schema changes all the time delays the others by one build at most.
  const limits = Array.from({ length: count }, () => createLimiter({ concurrency: 2, perKey: 1 }))
  let sweep: NodeJS.Timeout | undefined

  function threadAt(place: number): Thread {
    const found = threads.get(place)
    if (found) return found
    const made: Thread = new Thread(() => {
      if (threads.get(place) === made) threads.delete(place)
    })
    threads.set(place, made)
    return made
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
    ask(projectId, message) {
      const place = hashOf(projectId) % count
      const answer = limits[place]!(projectId, () => threadAt(place).ask(message))
      sweep ??= setTimeout(endIdle, idleMs).unref()
      return answer
    },
    async close() {
      clearTimeout(sweep)
      await Promise.all([...threads.values()].map(thread => thread.end()))
    },
  }
}

function hashOf(text: string): number {
  let hash = 0
  for (const character of text) hash = (hash * 31 + character.codePointAt(0)!) >>> 0
  return hash
}
