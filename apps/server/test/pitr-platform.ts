// A platform with recovery to a time on a Postgres of its own.
import assert from 'node:assert/strict'
import { type Client, client, ReplyError } from '@plinth/contract/client.ts'
import { type PitrJob, pitrApi } from '@plinth/contract/pitr.ts'
import type { S3Timeouts } from '#src/kernel/objects/s3.ts'
import type { Place } from '#src/kernel/postgres/engine/place.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { requestCutover } from '#src/services/pitr/cutover-request.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type OwnServer, startOwnServer } from './own-server.ts'

export interface PitrPlatform extends TestPlatform {
  server: OwnServer
  /** Repeats a call while the archive is behind. */
  pitr: Client<typeof pitrApi>
  /** The time of the server, with microseconds. Everything that was committed before is before it. */
  now(): Promise<string>
  /** Waits until times from now on can be recovered. */
  untilArchived(projectId: string): Promise<void>
  /** Recovers a project and waits until the copy is prepared, or has failed. */
  recover(projectId: string, target: string): Promise<PitrJob>
  job(projectId: string, jobId: string): Promise<PitrJob>
  /** As the command line does on the host, and waits until the end. */
  cutOver(projectId: string, jobId: string): Promise<PitrJob>
}

/** A route waits only for some seconds until the archive has the present, which may take longer on a slow machine. */
const isBehind = (error: unknown) => error instanceof ReplyError && error.code === 'pitr_archive_behind'

function patient(pitr: Client<typeof pitrApi>): Client<typeof pitrApi> {
  const repeated = (call: (input: unknown) => Promise<unknown>) => async (input: unknown) => {
    for (;;) {
      try {
        return await call(input)
      } catch (error) {
        if (!isBehind(error)) throw error
      }
    }
  }
  const calls = Object.entries(pitr).map(([name, call]) => [name, repeated(call as never)])
  return Object.fromEntries(calls) as Client<typeof pitrApi>
}

export const pitrOn = { PLATFORM_PITR: 'on' }

export async function startPitrPlatform(
  settings: Record<string, string> = pitrOn,
  s3Timeouts?: S3Timeouts,
  place?: Partial<Place>,
): Promise<PitrPlatform> {
  const own = await startOwnServer({ full_page_writes: 'on' })
  const server = { ...own, place: { ...own.place, ...place } }
  const platform = await startPlatform({ server, settings, ...(s3Timeouts && { s3Timeouts }) })
  const pitr = patient(client(pitrApi, { baseUrl: platform.url, token: platform.adminToken }))
  const page = { limit: 100 }

  async function job(projectId: string, jobId: string): Promise<PitrJob> {
    const { jobs } = await pitr.jobs({ params: { id: projectId }, query: page })
    const found = jobs.find(({ id }) => id === jobId)
    assert.ok(found, 'the job is in the list')
    return found
  }
  async function over(projectId: string, jobId: string): Promise<PitrJob> {
    let found = await job(projectId, jobId)
    await eventually(async () => {
      found = await job(projectId, jobId)
      return found.progress === null
    }, 'the job is over')
    return found
  }
  return {
    ...platform,
    server,
    pitr,
    job,
    async now() {
      const [row] = await platform.asSuperuser('postgres', session =>
        session.rows<{ at: string }>(
          sql`select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
        ),
      )
      return row!.at
    },
    async untilArchived(projectId) {
      await eventually(async () => {
        const { window } = await pitr.restorePoints({ params: { id: projectId } })
        return window !== null && window !== undefined
      }, 'the first base backup is made')
    },
    async recover(projectId, target) {
      const { job: started } = await pitr.restore({
        params: { id: projectId },
        body: { target_time: target },
      })
      assert.equal(started.status, 'pending')
      return over(projectId, started.id)
    },
    async cutOver(projectId, jobId) {
      await requestCutover(platform.app.control, jobId)
      return over(projectId, jobId)
    },
    async stop() {
      await platform.stop()
      await server.stop()
    },
  }
}
