// The cutover of a recovery to a time, by the operator on the host: of one project while the platform runs, or of the whole
// instance while it is stopped.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Config } from '#src/config.ts'
import { ConfigError } from '#src/config-error.ts'
import { type HostProgress, openHostProgress } from '#src/host-progress.ts'
import {
  isDataDirectory,
  isDataDirectoryLocked,
  lockDataDirectory,
  storedSecrets,
} from '#src/kernel/data-directory.ts'
import { type Session, withClient } from '#src/kernel/postgres/database.ts'
import { locate } from '#src/kernel/postgres/engine/place.ts'
import { rememberedPort } from '#src/kernel/postgres/engine/port.ts'
import { startEngine } from '#src/kernel/postgres/engine/start.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { isUuid } from '#src/kernel/uuid.ts'
import { cutOverInstance } from '#src/pitr-instance.ts'
import { requestCutover } from '#src/services/pitr/cutover-request.ts'
import { findJob, findProject, readDatabaseBytes } from '#src/services/pitr/store.ts'
import { controlSettings } from '#src/tenancy/cluster.ts'
import { recoveredOf } from '#src/tenancy/provision.ts'

const control = 'plinth'
const pollMs = 200
const silent = { info() {}, warn() {}, error() {} }

export async function pitrCutover(config: Config, args: string[]): Promise<string> {
  const { values, positionals } = parseArgs({
    args,
    options: { instance: { type: 'boolean' }, progress: { type: 'boolean' } },
    allowPositionals: true,
  })
  const [jobId = ''] = positionals
  if (!isUuid(jobId)) throw new ConfigError('pitr-cutover needs the id of a recovery.')
  if (config.external)
    throw new ConfigError('Recovery to a time is for the embedded database, and DATABASE_URL is set.')
  if (!isDataDirectory(config.dataDir))
    throw new ConfigError(`${config.dataDir} is not a data directory of the platform.`)
  const progress = openHostProgress(values.progress === true)
  if (values.instance) return JSON.stringify(await cutOverInstance(config, jobId, control, progress.add))
  const isRunning = isDataDirectoryLocked(config.dataDir)
  return JSON.stringify(
    await (isRunning ? cutOverNow(config, jobId, progress) : cutOverLater(config, jobId, progress)),
  )
}

/** The running platform does it. */
async function cutOverNow(config: Config, jobId: string, { show }: HostProgress) {
  const address = addressOf(config)
  await withClient(address, control, controlSettings, session => requestCutover(session, jobId))
  for (;;) {
    const job = await withClient(address, control, controlSettings, session => findJob(session, jobId)).catch(
      () => undefined,
    )
    if (job?.status === 'done')
      return {
        id: job.id,
        project_id: job.project_id,
        status: job.status,
        restore_id: job.restore_id,
        // The cutover is done, whether its size can be read or not.
        bytes: await withClient(address, control, controlSettings, session =>
          bytesOf(session, job.project_id, ref => ref),
        ).catch(() => null),
      }
    if (job && job.status !== 'cutting_over')
      throw new Error(`The project is unchanged, because the cutover has failed: ${job.error}.`)
    if (!isDataDirectoryLocked(config.dataDir))
      throw new Error(
        'The platform has stopped meanwhile. Its next start with PLATFORM_PITR=on ends the cutover.',
      )
    if (job?.progress) show(job.progress)
    await sleep(pollMs)
  }
}

/**
 * The next start of the platform does it, with PLATFORM_PITR=on. It takes the lock, because a platform that starts meanwhile would
 * end this Postgres as one that was left behind.
 */
async function cutOverLater(config: Config, jobId: string, { add }: HostProgress) {
  const directory = lockDataDirectory(config.dataDir)
  try {
    const { POSTGRES_PASSWORD: password = '' } = storedSecrets(config.dataDir)
    add('starting the database', 0)
    const engine = await startEngine({
      dataDir: config.dataDir,
      superuserPassword: password,
      extensionDir: config.extensionDir,
      log: silent,
    })
    try {
      const address = addressOf(config)
      return await withClient(address, control, controlSettings, async session => {
        const { id, project_id } = await requestCutover(session, jobId)
        const bytes = await bytesOf(session, project_id, recoveredOf)
        return { id, project_id, status: 'cutting_over', restore_id: null, bytes }
      })
    } finally {
      await engine.stop()
    }
  } finally {
    directory.release()
  }
}

async function bytesOf(session: Session, projectId: string, nameOf: (ref: string) => string) {
  const project = await findProject(session, projectId)
  return project ? readDatabaseBytes(session, nameOf(project.ref)) : null
}

function addressOf({ dataDir }: Config): ServerAddress {
  const { POSTGRES_PASSWORD: password = '' } = storedSecrets(dataDir)
  const port = rememberedPort(dataDir)
  if (port === undefined) throw new Error(`The database of ${dataDir} was never started.`)
  return { host: locate(dataDir).socketDir, port, user: 'postgres', password, tls: undefined }
}
