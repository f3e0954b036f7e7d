// The workers of this node. Pooled: one worker for each project that is called, the least recently used one is stopped for
// another project, idle ones are stopped after a while. Per invocation: a new worker for each call.
import type { Log } from '#src/kernel/log.ts'
import { Backoff, crashKey } from './backoff.ts'
import { busy, inBackoff } from './refusals.ts'
import { pause, pollMs, watchWorkers, whenCalm } from './watching.ts'
import type { Ending, Worker } from './worker.ts'

export interface PoolSettings {
  maxWorkers: number
  idleMs: number
  /** How long calls of a worker that is replaced may take to end. */
  drainMs: number
  backoff: { startMs: number; capMs: number; resetMs: number }
}

export interface WorkerRequest {
  /** One worker for each key: a project, or all of them. */
  key: string
  /** A worker with another fingerprint is replaced. */
  fingerprint: string
  start(): Promise<Worker>
}

export interface Leased {
  worker: Worker
  isCold: boolean
}

export interface Pool {
  /** Refuses with WORKER_BACKOFF or WORKER_BUSY. Other errors are those of the start. */
  /** The worker of a project, if it has been started. */
  running(key: string, fingerprint: string): Worker | undefined
  lease(request: WorkerRequest): Promise<Leased>
  /** Stops the worker of a key, such as that of a deleted project. */
  drop(key: string): void
  keys(): string[]
  readonly size: number
  close(): Promise<void>
}

interface Slot {
  key: string
  fingerprint: string
  worker: Promise<Worker>
  /** Once it has started. */
  running?: Worker
  startedAt: number
}

/** After this, a call that waits for a free worker takes that of the least recently used project, even if it is busy. */
const patienceMs = 1000

export function createPool(settings: PoolSettings, log: Log): Pool {
  const { maxWorkers, idleMs, drainMs } = settings
  const slots = new Map<string, Slot>()
  const retiring = new Map<string, Worker>()
  const backoff = new Backoff(settings.backoff)
  let isClosed = false

  const watching = watchWorkers(
    () => [...[...slots.values()].flatMap(({ running }) => running ?? []), ...retiring.values()],
    log,
    now => {
      for (const { key, running } of slots.values())
        if (running && !running.isBusy && now - running.lastUsedAt > idleMs) drop(key)
    },
  )

  function start(request: WorkerRequest): Slot {
    const { key, fingerprint } = request
    const startedAt = performance.now()
    const slot: Slot = { key, fingerprint, startedAt, worker: request.start() }
    slots.set(key, slot)
    slot.worker.then(
      worker => {
        slot.running = worker
        watching.start()
        void worker.ended.then(ending => ended(slot, ending))
      },
      () => ended(slot, 'crash'),
    )
    return slot
  }

  function ended(slot: Slot, ending: Ending): void {
    const { key, fingerprint, startedAt } = slot
    if (slots.get(key) === slot) slots.delete(key)
    if (retiring.get(key) === slot.running) retiring.delete(key)
    if (ending === 'stopped' || isClosed) return
    const now = performance.now()
    backoff.crashed(crashKey(key, fingerprint), now - startedAt, now)
    log.info({ project: key, ending, ranMs: Math.round(now - startedAt) }, 'a worker of functions has ended')
  }

  /** Takes no new calls, and is stopped when its calls have ended. */
  function retire(slot: Slot): void {
    if (slots.get(slot.key) === slot) slots.delete(slot.key)
    void slot.worker.then(
      async worker => {
        const before = retiring.get(slot.key)
        if (before !== worker) void before?.stop().catch(logFailure)
        retiring.set(slot.key, worker)
        await whenCalm(worker, drainMs, () => isClosed)
        await worker.stop().catch(logFailure)
      },
      () => {},
    )
  }

  function drop(key: string): void {
    const slot = slots.get(key)
    if (slot) retire(slot)
  }

  /** Stops the least recently used worker: at once if it has no calls, otherwise only for a call that has waited. */
  function evict(mayBeBusy: boolean): boolean {
    const candidates = [...slots.values()]
      .filter(({ running }) => running && (mayBeBusy || !running.isBusy))
      .sort((a, b) => a.running!.lastUsedAt - b.running!.lastUsedAt)
    const [oldest] = candidates
    if (!oldest) return false
    slots.delete(oldest.key)
    void oldest.running!.stop().catch(logFailure)
    return true
  }

  async function makeRoom(): Promise<void> {
    const since = performance.now()
    while (slots.size >= maxWorkers) {
      const waited = performance.now() - since
      if (evict(waited > patienceMs)) return
      if (waited > 2 * patienceMs || isClosed) throw busy()
      await pause(pollMs)
    }
  }

  /** Undefined if the worker has ended during its start. */
  async function leaseOf(slot: Slot): Promise<Leased | undefined> {
    const isCold = slot.running === undefined
    const worker = await slot.worker
    if (!worker.hasEnded) return { worker, isCold }
    // Unless another call has started the next one meanwhile.
    if (slots.get(slot.key) === slot) slots.delete(slot.key)
  }

  function logFailure(error: unknown): void {
    log.error({ err: error }, 'a worker of functions could not be stopped')
  }

  return {
    running(key, fingerprint) {
      const known = slots.get(key)
      if (known?.fingerprint === fingerprint && known.running?.hasEnded === false) return known.running
    },
    async lease(request) {
      for (;;) {
        if (isClosed) throw busy()
        const known = slots.get(request.key)
        if (isUsable(known, request)) {
          const leased = await leaseOf(known)
          if (leased) return leased
          continue
        }
        if (known) retire(known)
        const waitMs = backoff.pauseOf(crashKey(request.key, request.fingerprint), performance.now())
        if (waitMs > 0) throw inBackoff(waitMs)
        if (slots.size >= maxWorkers) {
          await makeRoom()
          continue
        }
        return { worker: await start(request).worker, isCold: true }
      }
    },
    drop,
    keys: () => [...slots.keys()],
    get size() {
      return slots.size
    },
    async close() {
      isClosed = true
      await watching.stop()
      const workers = await Promise.allSettled([...slots.values()].map(({ worker }) => worker))
      const running = workers.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
      await Promise.all([...running, ...retiring.values()].map(worker => worker.stop().catch(logFailure)))
    },
  }
}

/** Whether it serves this version, as far as is known. */
const isUsable = (slot: Slot | undefined, { fingerprint }: WorkerRequest): slot is Slot =>
  slot?.fingerprint === fingerprint && slot.running?.hasEnded !== true
