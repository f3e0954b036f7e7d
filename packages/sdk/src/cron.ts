import type { cronApi } from '@plinth/contract/cron.ts'
import { type CallOptions, mapResult, type Result } from './result.ts'
import type { Send } from './transport.ts'
import type { Job, JobDefinition, Run } from './wire.ts'

export interface RunsOptions extends CallOptions {
  /** Maximum number of runs, up to 100. Defaults to 100. */
  limit?: number
}

/** The scheduled jobs of the project: SQL that runs in its database, as its owner. */
export class Cron {
  readonly #send: Send

  /** @internal */
  constructor(send: Send) {
    this.#send = send
  }

  /**
   * Schedules a job. A job with the same name is replaced. `schedule` is five cron fields in UTC, such as
   * `0 3 * * mon`, or `N seconds` with N from 1 to 59.
   */
  schedule(job: JobDefinition, options: CallOptions = {}): Promise<Result<Job>> {
    return this.#send<typeof cronApi.schedule>('POST', '/cron/{project}/jobs', { body: job, ...options })
  }

  /** The jobs of the project. */
  list(options: CallOptions = {}): Promise<Result<Job[]>> {
    return this.#send<typeof cronApi.list>('GET', '/cron/{project}/jobs', options)
  }

  /** Removes a job with its history. An active run is not stopped. */
  unschedule(name: string, options: CallOptions = {}): Promise<Result<null>> {
    const answer = this.#send<typeof cronApi.unschedule>('DELETE', '/cron/{project}/jobs/{name}', {
      params: { name },
      ...options,
    })
    return mapResult(answer, () => null)
  }

  /** Recent runs of a job, newest first. */
  runs(name: string, options: RunsOptions = {}): Promise<Result<Run[]>> {
    const { signal, ...query } = options
    return this.#send<typeof cronApi.runs>('GET', '/cron/{project}/jobs/{name}/runs', {
      params: { name },
      query,
      signal,
    })
  }
}
