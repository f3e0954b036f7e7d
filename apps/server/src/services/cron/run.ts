// One run of a job: its SQL, as the project's owner, on a connection of its own that is closed afterwards. Whatever the
// SQL sets or catches, the run ends with its timeout: first by a request to cancel, then by ending its session.
import { Refusal } from '#src/kernel/errors.ts'
import type { OwnSession } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { splitStatements } from '#src/kernel/postgres/statements.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { withAuthTriggerCalls } from '#src/tenancy/auth-trigger-statements.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { leavesTransactionOpen } from '#src/tenancy/open-transaction.ts'
import type { Backend } from './store.ts'

export interface Outcome {
  status: 'succeeded' | 'failed'
  message: string
}

export interface RunDeps {
  databases: Pick<Databases, 'asOwner'>
  timeoutMs: number
  /** Told where it runs, before it does; undefined when it must not run any more. */
  noteBackend(pid: number): Promise<Backend | undefined>
  endBackend(backend: Backend): Promise<unknown>
}

/** Between asking a run to end and ending its session. */
const patienceMs = 1000
const busyMs = { most: 10_000, pause: 200 }
const longestMessage = 1000
const settings = (timeoutMs: number) =>
  `set statement_timeout = ${timeoutMs}; set client_connection_check_interval = '5s';
   set search_path = "$user", public, extensions`

/** The signal's reason, where it is a text, is what the run has failed of. */
export async function runJob(
  tenant: Tenant,
  command: string,
  stop: AbortSignal,
  { databases, timeoutMs, noteBackend, endBackend }: RunDeps,
): Promise<Outcome> {
  const since = performance.now()
  const timeout = AbortSignal.timeout(timeoutMs)
  const end = AbortSignal.any([timeout, stop])
  let backend: Backend | undefined
  let ending: NodeJS.Timeout | undefined
  // Again and again: the first attempt may meet a control database that is away.
  const insist = () => {
    ending = setInterval(() => backend && void endBackend(backend).catch(() => {}), patienceMs)
  }
  end.addEventListener('abort', insist, { once: true })
  try {
    const tag = await inTurn(end, () =>
      databases.asOwner(
        tenant,
        async session => {
          await session.script(settings(timeoutMs))
          const { pid } = (await session.row<{ pid: number }>(
            sql`select pg_catalog.pg_backend_pid() as pid`,
          ))!
          backend = await noteBackend(pid)
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
    end.removeEventListener('abort', insist)
    clearInterval(ending)
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

/** Others work as the project's owner, or its database is being upgraded: a job waits for a while. */
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

const isStatementTimeout = (error: unknown) => {
  const { code, message } = error as { code?: string; message?: string }
  return code === '57014' && message?.includes('statement timeout') === true
}

const reasonOf = ({ reason }: AbortSignal): string =>
  typeof reason === 'string' ? reason : 'the platform was stopped'

/** What became of its session says more than that the database cannot be reached. */
const isEnded = (error: unknown): error is Error => /^57P0/.test(String((error as { code?: string })?.code))

function toldBy(error: unknown): string {
  const { cause } = error as { cause?: unknown }
  if (isEnded(cause)) return `its session was ended: ${cause.message}`
  const { message, detail, hint } = error as { message: string; detail?: string; hint?: string }
  return [message, detail && `DETAIL: ${detail}`, hint && `HINT: ${hint}`].filter(Boolean).join('\n')
}
