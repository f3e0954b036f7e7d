// The workers of all local functions: one each, started at its first call. So each function has its own import map.
import { entrypointOf, namePattern } from '../folder.ts'
import type { Deno } from './deno.ts'
import { type OutputLine, startWorker, type Variables, type Worker } from './worker.ts'

export interface WorkersOptions {
  deno: Deno
  root: string
  /** If given, no other function is served. */
  only: string | undefined
  /** For sockets and temporary files. */
  directory: string
  /** Read at each start of a worker. */
  variables(): Variables
  onLine(name: string, line: OutputLine): void
}

export interface Workers {
  /** Undefined if there is no such function. */
  find(name: string): Promise<Worker> | undefined
  /** New calls start new workers. */
  retireAll(): void
  close(): Promise<void>
}

export function createWorkers({ deno, root, only, directory, variables, onLine }: WorkersOptions): Workers {
  const current = new Map<string, Promise<Worker>>()
  const running = new Set<Worker>()
  let started = 0

  async function start(name: string, entrypoint: string): Promise<Worker> {
    const worker = await startWorker({
      deno,
      root,
      entrypoint,
      directory: `${directory}/${++started}`,
      variables: variables(),
      onLine: line => onLine(name, line),
    })
    running.add(worker)
    return worker
  }

  function watchEnd(name: string, starting: Promise<Worker>): void {
    const forget = () => {
      const isCurrent = current.get(name) === starting
      if (isCurrent) current.delete(name)
      return isCurrent
    }
    starting
      .then(async worker => {
        const why = await worker.ended
        running.delete(worker)
        if (forget())
          onLine(name, { level: 'error', message: `The worker has ended: ${why}.`, requestId: null })
      })
      .catch(forget)
  }

  return {
    find(name) {
      const isServed = namePattern.test(name) && (only === undefined || name === only)
      const entrypoint = isServed ? entrypointOf(root, name) : undefined
      if (entrypoint === undefined) return undefined
      const known = current.get(name)
      if (known) return known
      const starting = start(name, entrypoint)
      current.set(name, starting)
      watchEnd(name, starting)
      return starting
    },
    retireAll() {
      const retired = [...current.values()]
      current.clear()
      for (const starting of retired)
        starting.then(
          worker => worker.retire(),
          () => {},
        )
    },
    async close() {
      const starting = [...current.values()]
      current.clear()
      await Promise.allSettled(starting)
      await Promise.all([...running].map(worker => worker.stop()))
    },
  }
}
