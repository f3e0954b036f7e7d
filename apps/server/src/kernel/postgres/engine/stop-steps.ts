// The signals that stop Postgres.
import type { StopStep } from '#src/kernel/child-processes/stop.ts'
import { hasSessions } from './sessions.ts'

/** In a fast shutdown, sessions end within this time unless they cannot be interrupted. */
const sessionsMs = 3000

/**
 * SIGINT is the fast shutdown of Postgres. After its sessions have ended, it writes a checkpoint, which may take long.
 * SIGQUIT is the immediate shutdown, which also ends sessions that cannot be interrupted. The next start recovers from
 * the WAL. SIGKILL is for a postmaster that no longer reacts.
 */
export const postgresStopSteps = (postmaster: number, withinMs: number): readonly StopStep[] => [
  {
    signal: 'SIGINT',
    withinMs,
    isHopeless: { afterMs: sessionsMs, check: () => hasSessions(postmaster) },
  },
  { signal: 'SIGQUIT', withinMs },
  { signal: 'SIGKILL', withinMs },
]
