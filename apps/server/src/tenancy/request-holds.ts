// Holds the requests of one project for a moment, so that no session of this node is in its database. They wait without an
// error and continue afterwards.
import { retryLater } from '#src/kernel/errors.ts'

/** A part of the platform with connections to project databases. */
export interface HeldConnections {
  /** Closes the idle connections to a project. True if no connection is left. */
  closeIdle(project: HeldProject): boolean
}

export interface HeldProject {
  id: string
  ref: string
}

export interface Hold {
  /** Closes connections that have become idle. True if this node has none left. */
  drain(): boolean
  release(): void
}

export interface RequestHolds {
  /** Runs the work: at once, or after the hold of the project. */
  pass<T>(ref: string, run: () => Promise<T>): Promise<T>
  add(connections: HeldConnections): void
  /** Undefined if the project is held already. */
  hold(project: HeldProject): Hold | undefined
}

/** After a hold, this many requests start at once. Connections are opened again, so all at once would exhaust the pools. */
const startedAtOnce = 20
/** Another one starts when one has ended, and after this time, so that slow statements delay no others. */
const paceMs = 2
const maxWaiting = 10_000

export function createRequestHolds(): RequestHolds {
  const waiting = new Map<string, (() => Promise<unknown>)[]>()
  /** Projects whose requests are let go. A hold meanwhile would count them as its own. */
  const starting = new Set<string>()
  const parts: HeldConnections[] = []

  function startAll(ref: string, held: (() => Promise<unknown>)[]): void {
    starting.add(ref)
    let isOver = false
    const startNext = () => {
      const next = held.shift()
      if (next) return void next().then(startNext, startNext)
      if (isOver) return
      isOver = true
      clearTimeout(timer)
      starting.delete(ref)
    }
    const startPaced = () => {
      timer = setTimeout(startPaced, paceMs)
      startNext()
    }
    let timer = setTimeout(startPaced, paceMs)
    for (let started = 0; started < startedAtOnce; started++) startNext()
  }

  return {
    pass(ref, run) {
      const held = waiting.size === 0 ? undefined : waiting.get(ref)
      if (!held) return run()
      if (held.length >= maxWaiting)
        return Promise.reject(
          retryLater('pool_exhausted', 'Too many requests wait for this project; try again in a second', 1),
        )
      const { promise, resolve } = Promise.withResolvers<void>()
      held.push(() => {
        resolve()
        return started
      })
      const started = promise.then(run)
      return started
    },
    add: connections => void parts.push(connections),
    hold(project) {
      const { ref } = project
      if (waiting.has(ref) || starting.has(ref)) return
      waiting.set(ref, [])
      return {
        drain: () => parts.map(part => part.closeIdle(project)).every(Boolean),
        release() {
          const held = waiting.get(ref)
          waiting.delete(ref)
          if (held) startAll(ref, held)
        },
      }
    },
  }
}
