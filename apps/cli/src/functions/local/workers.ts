// The workers of all local functions: one each, started at its first call. So each function has its own import map.
import { readFileSync } from 'node:fs'
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

/** Its `serve` listens on a port of its own. The platform replaces it when a function is deployed. */
const stdServer = /deno\.land\/std(@[^/]+)?\/http\/server\.ts/

export function createWorkers({ deno, root, only, directory, variables, onLine }: WorkersOptions): Workers {
  const current = new Map<string, Promise<Worker>>()
  /** Also those that are retired and have not ended. */
  const all = new Set<Promise<Worker>>()
  let started = 0

  function start(name: string, entrypoint: string): Promise<Worker> {
    if (stdServer.test(readFileSync(entrypoint, 'utf8')))
      onLine(name, {
        level: 'warn',
        message:
          'It imports serve from deno.land/std, which works only after it is deployed. Use Deno.serve(handler).',
        requestId: null,
      })
    const starting = startWorker({
      deno,
      root,
      entrypoint,
      directory: `${directory}/${++started}`,
      variables: variables(),
      onLine: line => onLine(name, line),
    })
    current.set(name, starting)
    all.add(starting)
    void reportEnd(name, starting)
    return starting
  }

  async function reportEnd(name: string, starting: Promise<Worker>): Promise<void> {
    const why = await starting.then(
      worker => worker.ended,
      () => null,
    )
    all.delete(starting)
    if (current.get(name) !== starting) return
    current.delete(name)
    if (why !== null)
      onLine(name, { level: 'error', message: `The worker has ended: ${why}.`, requestId: null })
  }

  return {
    find(name) {
      const isServed = namePattern.test(name) && (only === undefined || name === only)
      const entrypoint = isServed ? entrypointOf(root, name) : undefined
      if (entrypoint === undefined) return undefined
      return current.get(name) ?? start(name, entrypoint)
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
      current.clear()
      await Promise.allSettled([...all].map(starting => starting.then(worker => worker.stop())))
    },
  }
}
