// What the client gets if a worker does not answer.
import type { ErrorCode } from '@plinth/contract/errors.ts'
import { AnswerTimeout, CallReset, ConnectionLost } from '@plinth/runtime/client/linked-call.ts'
import { Refusal, retryLater } from '#src/kernel/errors.ts'
import type { Excess } from './worker/usage.ts'
import type { Worker } from './worker/worker.ts'

/** The error for the client, if the worker has not answered. */
export async function reasonOf(error: unknown, worker: Worker, timeoutMs: number): Promise<unknown> {
  if (error instanceof AnswerTimeout) return timedOut(timeoutMs)
  if (error instanceof CallReset) return failureOf('error')
  return error instanceof ConnectionLost ? reasonOfEnd(worker) : error
}

async function reasonOfEnd(worker: Worker): Promise<Refusal> {
  const ending = await Promise.race([
    worker.ended,
    new Promise<undefined>(resolve => setTimeout(() => resolve(undefined), 1000).unref()),
  ])
  if (ending === 'memory' || ending === 'cpu' || ending === 'disk') return overLimit(ending)
  if (ending === 'stopped') return retryLater('WORKER_BUSY', 'The worker was stopped; try again', 1)
  return ofProject('WORKER_ERROR', 'The worker ended during the call; the log of the function has the reason')
}

const ofProject = (code: ErrorCode, message: string, hint = '') =>
  new Refusal(code, message, { hint, isOfProject: true })

const overLimit = (what: Excess) =>
  ofProject(
    'WORKER_LIMIT',
    `The worker was ended, because it used too much ${{ memory: 'memory', cpu: 'CPU time', disk: 'disk space' }[what]}`,
  )

export function failureOf(outcome: string): Refusal {
  if (outcome === 'boot')
    return ofProject('BOOT_ERROR', 'The function could not be loaded; its log has the reason')
  if (outcome === 'memory')
    return ofProject('WORKER_LIMIT', 'The function could not get as much memory as it needs')
  return ofProject('WORKER_ERROR', 'The function threw an error; its log has the reason')
}

const timedOut = (timeoutMs: number) =>
  ofProject('IDLE_TIMEOUT', `The function sent nothing for ${timeoutMs / 1000} seconds`)

export const tooLong = (maxBytes: number) =>
  ofProject(
    'WORKER_LIMIT',
    `The answer of the function has more than ${maxBytes / 1024 / 1024} MB`,
    'The operator can raise the quota function_response_mb of the project.',
  )
