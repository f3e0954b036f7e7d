// A client-side limit for statements sent through `pg`. The server ends a statement at its statement_timeout, unless it
// runs code that it cannot interrupt; then the connection is cut, and the backend counts as abandoned until it has ended.
import type { Socket } from 'node:net'
import { graceMs } from './wire/connection.ts'
import { GivenUp } from './wire/database-error.ts'

export interface Deadline {
  /** The statement_timeout of the session's statements; without one they are waited for. */
  timeoutMs?: number | undefined
  /** The connection was cut while its backend was at work. */
  onAbandoned?: ((processId: number) => void) | undefined
}

/** What the driver keeps to itself. */
export interface Breakable {
  processID: number
  connection: { stream: Socket }
}

const checkMs = 250
/** What a timer can count. */
const longestMs = 2 ** 31 - 1

export function cut(client: unknown, { onAbandoned }: Deadline): void {
  const { connection, processID } = client as Breakable
  if (connection.stream.destroyed) return
  connection.stream.destroy()
  onAbandoned?.(processID)
}

/** One statement. As long as its answer arrives it goes on; an answer that lies unread is read first. */
export function inTime<T>(client: unknown, deadline: Deadline, ask: () => Promise<T>): Promise<T> {
  const { timeoutMs } = deadline
  if (timeoutMs === undefined) return ask()
  const { stream } = (client as Breakable).connection
  return new Promise((resolve, reject) => {
    let timer = setTimeout(() => check(stream.bytesRead), Math.min(timeoutMs + graceMs, longestMs))
    const check = (before: number) => {
      timer = setTimeout(() => {
        if (stream.bytesRead !== before) return check(stream.bytesRead)
        reject(new GivenUp())
        cut(client, deadline)
      }, checkMs)
    }
    ask()
      .finally(() => clearTimeout(timer))
      .then(resolve, reject)
  })
}
