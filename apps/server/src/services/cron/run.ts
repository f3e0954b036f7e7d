// Runs the SQL of a job once, as the project's owner, on its own connection. The SQL cannot disable or catch the timeout: the
// run is cancelled first, then its session is terminated.
import { createChore } from '#src/kernel/chores.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { OwnSession } from '#src/kernel/postgres/database.ts'
import { DatabaseError } from '#src/kernel/postgres/database-error.ts'
import { splitStatements } from '#src/kernel/postgres/statements.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { withAuthTriggerCalls } from '#src/tenancy/auth-trigger-statements.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { leavesTransactionOpen } from '#src/tenancy/open-transaction.ts'
import { type Backend, backendPid } from './store.ts'

export interface Outcome {
  status: 'succeeded' | 'failed'
  message: string
}

export interface RunDeps {
  databases: Pick<Databases, 'asOwner'>
  timeoutMs: number
  /** Called with the backend before the SQL runs. Undefined if it must not run any more. */
  saveBackend(pid: number): Promise<Backend | undefined>
  endBackend(backend: Backend): Promise<unknown>
}

/** Time between the cancel request and the termination of the session. */
const patienceMs = 1000
const busyMs = { most: 10_000, pause: 200 }
const longestMessage = 1000
const settings = (timeoutMs: number) =>
  `set statement_timeout = ${timeoutMs}; set client_connection_check_interval = '5s';
   set search_path = "$user", public, extensions`

/** If the reason of the signal is a text, it is the error message of the run. */
export async function runJob(
  tenant: Tenant,
  command: string,
  stop: AbortSignal,
  { databases, timeoutMs, saveBackend, endBackend }: RunDeps,
): Promise<Outcome> {
  const since = performance.now()
  const timeout = AbortSignal.timeout(timeoutMs)
  const end = AbortSignal.any([timeout, stop])
  let backend: Backend | undefined
  // Repeat it, because the control database may be unavailable at the first attempt.
  const ending = createChore({
    name: 'end the session of a job',
    everyMs: patienceMs,
    run: () => backend && endBackend(backend),
  })
  end.addEventListener('abort', ending.start, { once: true })
  try {
    const tag = await inTurn(end, () =>
      databases.asOwner(
        tenant,
        async session => {
          await session.script(settings(timeoutMs))
          const pid = await backendPid(session)
          backend = await saveBackend(pid)
          end.throwIfAborted()
          if (!backend) throw new Error('it was given up before it began')
          return carryOut(session, command)
        },
        { signal: end },
      ),
    )
    return { status: 'succeeded', message: tag }
  } catch (error) {
    const isOver = timeout.aborted || (isStatementTimeout(error) && performance.now() - since >= timeoutMs)
    const message = stop.aborted
      ? reasonOf(stop)
      : isOver
        ? `it took longer than the ${timeoutMs} ms of PLATFORM_CRON_TIMEOUT_MS and was ended`
        : toldBy(error)
    return { status: 'failed', message: message.slice(0, longestMessage) }
  } finally {
    end.removeEventListener('abort', ending.start)
    void ending.stop()
  }
}

async function carryOut(session: OwnSession, command: string): Promise<string> {
  const statements = await inSlices(splitStatements(command))
  const { text, lastTag } = await inSlices(withAuthTriggerCalls(command, statements))
  const tag = await session.results(text)
  if (await leavesTransactionOpen(session))
    throw new Refusal('invalid_request', 'it left a transaction open, and nothing of it was kept')
  return lastTag ?? tag
}

/** Retries for a while if all owner connections are busy or the database is being upgraded. */
async function inTurn<T>(end: AbortSignal, work: () => Promise<T>): Promise<T> {
  const until = performance.now() + busyMs.most
  for (;;)
    try {
      end.throwIfAborted()
      return await work()
    } catch (error) {
      if (!(error instanceof Refusal) || !isPassing(error) || performance.now() > until) throw error
      await new Promise(resolve => setTimeout(resolve, busyMs.pause))
    }
}

const isPassing = ({ code }: Refusal) => code === 'pool_exhausted' || code === 'project_upgrading'

const isStatementTimeout = (error: unknown) =>
  error instanceof DatabaseError && error.code === '57014' && error.message.includes('statement timeout')

const reasonOf = ({ reason }: AbortSignal): string =>
  typeof reason === 'string' ? reason : 'the platform was stopped'

/** The reason why the session ended is more specific than a lost connection. */
const isEnded = (error: unknown): error is DatabaseError =>
  error instanceof DatabaseError && error.code.startsWith('57P0')

function toldBy(error: unknown): string {
  const { cause } = error as { cause?: unknown }
  if (isEnded(cause)) return `its session was ended: ${cause.message}`
  const { message, detail, hint } = error as { message: string; detail?: string; hint?: string }
  return [message, detail && `DETAIL: ${detail}`, hint && `HINT: ${hint}`].filter(Boolean).join('\n')
}
