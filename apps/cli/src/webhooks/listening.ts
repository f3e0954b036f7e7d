// Reads the deliveries of a listener and passes them on, one at a time and in order.
import { setTimeout as sleep } from 'node:timers/promises'
import { ReplyError } from '@plinth/contract/client.ts'
import type { Listener, Streamed } from '@plinth/contract/webhooks.ts'
import { isTemporary, retryDelayMs } from '../temporary-failure.ts'

const waitSeconds = 20
/** The platform removes a listener that was not read for a minute, and a delivery takes up to 30 seconds. */
const renewAfterMs = 20_000

export interface ListenerQuery {
  after?: string
  wait_seconds: number
  limit?: number
}

export interface Listening {
  open(): Promise<Listener>
  read(listenerId: string, query: ListenerQuery): Promise<Streamed[]>
  close(listenerId: string): Promise<unknown>
  forward(delivery: Streamed): Promise<void>
  /** Called again with a new listener after the previous one has expired. */
  onOpened(listener: Listener, isFirst: boolean): void
  /** Called once for failures in a row. */
  onTrouble(error: unknown): void
  onRecovered(): void
  now(): number
  signal: AbortSignal
}

/** Until it is interrupted. A failure to open the first listener is thrown, because the user is waiting for it. */
export async function runListening(options: Listening): Promise<void> {
  const { open, close, forward, onOpened, signal } = options
  const state: State = { listener: await open(), last: undefined, readAt: options.now() }
  try {
    onOpened(state.listener!, true)
    while (!signal.aborted)
      for (const delivery of await nextDeliveries(options, state)) {
        await forward(delivery)
        if (signal.aborted) return
        // A delivery that was committed late has a lower id than its predecessor.
        if (state.last === undefined || delivery.id > state.last) state.last = delivery.id
        await renewIfDue(options, state)
      }
  } finally {
    // A listener that cannot be closed expires.
    if (state.listener) await close(state.listener.id).catch(() => {})
  }
}

interface State {
  /** Null after it has expired. */
  listener: Listener | null
  /** The highest id of a delivery that was passed on; the platform forgets deliveries up to it. */
  last: string | undefined
  readAt: number
}

async function nextDeliveries(options: Listening, state: State): Promise<Streamed[]> {
  const { open, onOpened, onTrouble, onRecovered, signal } = options
  let isInTrouble = false
  for (let failures = 0; !signal.aborted; ) {
    try {
      if (!state.listener) {
        state.listener = await open()
        onOpened(state.listener, false)
      }
      const deliveries = await read(options, state, { wait_seconds: waitSeconds })
      if (isInTrouble) onRecovered()
      return deliveries
    } catch (error) {
      if (signal.aborted) break
      if (isGone(error)) state.listener = null
      else if (!isTemporary(error)) throw error
      else if (!isInTrouble) {
        isInTrouble = true
        onTrouble(error)
      }
      await sleep(retryDelayMs(++failures), undefined, { signal }).catch(() => {})
    }
  }
  return []
}

/** Keeps the listener open while a slow server answers. A failure shows again at the next read. */
async function renewIfDue(options: Listening, state: State): Promise<void> {
  if (options.now() - state.readAt < renewAfterMs) return
  await read(options, state, { wait_seconds: 0, limit: 0 }).catch(() => {})
}

async function read(options: Listening, state: State, query: ListenerQuery): Promise<Streamed[]> {
  const { listener, last } = state
  if (!listener) return []
  const deliveries = await options.read(listener.id, { ...query, ...(last && { after: last }) })
  state.readAt = options.now()
  return deliveries
}

const isGone = (error: unknown) => error instanceof ReplyError && error.code === 'webhook_not_found'
