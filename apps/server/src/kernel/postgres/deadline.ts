// A client-side timeout for statements sent with `pg`. The server ends a statement at its statement_timeout, unless it
// runs code that it cannot interrupt. Then the connection is closed, and the backend counts as abandoned until it ends.
import { AbandonedStatement } from './database-error.ts'
import { backendOf, type DriverClient, socketOf } from './driver-internals.ts'
import { graceMs } from './wire/connection.ts'

export interface Deadline {
  /** The statement_timeout of the session. Without it there is no deadline. */
  timeoutMs?: number | undefined
  /** Called when the connection was closed while its backend ran a statement. */
  onAbandoned?: ((processId: number) => void) | undefined
}

const checkMs = 250
/** The longest delay that Node's timers support. */
const maxTimerMs = 2 ** 31 - 1

export function abandonConnection(client: DriverClient, { onAbandoned }: Deadline): void {
  const socket = socketOf(client)
  if (socket.destroyed) return
  socket.destroy()
  onAbandoned?.(backendOf(client).processId)
}

/**
 * Sends one statement. After the deadline, it is abandoned only if no bytes arrive for another `checkMs`: the answer may
 * still be arriving, or may have waited in the socket while this process was busy.
 */
export function withDeadline<T>(
  client: DriverClient,
  deadline: Deadline,
  send: () => Promise<T>,
): Promise<T> {
  const { timeoutMs } = deadline
  if (timeoutMs === undefined) return send()
  const socket = socketOf(client)
  return new Promise((resolve, reject) => {
    let timer = setTimeout(() => check(socket.bytesRead), Math.min(timeoutMs + graceMs, maxTimerMs))
    const check = (before: number) => {
      timer = setTimeout(() => {
        if (socket.bytesRead !== before) return check(socket.bytesRead)
        reject(new AbandonedStatement())
        abandonConnection(client, deadline)
      }, checkMs)
    }
    send()
      .finally(() => clearTimeout(timer))
      .then(resolve, reject)
  })
}
