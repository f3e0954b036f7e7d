// Recovers one project to a time beside the others: its files and those of the control database are recovered on a second
// server, written from there into an archive, restored into a database of the project here, and compared. Code of the
// tenant never runs as superuser, as in a restore.
import { readArchive, writeArchive } from '#src/archive/archive.ts'
import { compareDatabase } from '#src/archive/compare-database.ts'
import { readLines } from '#src/archive/json-lines.ts'
import { type ArchivedProject, contentBytes, type Manifest } from '#src/archive/manifest.ts'
import { restoreDatabase } from '#src/archive/restore-database.ts'
import { writeControl } from '#src/archive/write-control.ts'
import { type Watching, writeDatabase } from '#src/archive/write-database.ts'
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { type Database, withClient } from '#src/kernel/postgres/database.ts'
import type { Place } from '#src/kernel/postgres/engine/place.ts'
import { planRecovery, type RecoveryPlan } from '#src/kernel/postgres/recovery/catalogue.ts'
import {
  databaseBytes,
  neededBytes,
  type RecoveredServer,
  recoverAside,
} from '#src/kernel/postgres/recovery/recovery.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { version } from '#src/kernel/version.ts'
import type { BackupsService } from '#src/services/backups/service.ts'
import { type Cluster, controlSettings, migratePlatform } from '#src/tenancy/cluster.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import type { ProjectData } from '#src/tenancy/project-data.ts'
import { databasesOf, recoveredOf } from '#src/tenancy/provision.ts'
import type { RecoveryArchive } from './archive.ts'
import type { SpaceClaims } from './space.ts'
import * as store from './store.ts'

export interface PrepareDeps {
  control: Database
  projectData: ProjectData
  cluster: Cluster
  archive: RecoveryArchive
  /** Of the running server. */
  place: Place
  /** Of the embedded Postgres, such as the directories of extensions. */
  engineSettings: Record<string, string>
  /** Where archives of recovered projects are. */
  copies: Pieces
  deriveKey: DeriveKey
  logins: Logins
  dataDir: string
  backups: BackupsService
  claims: SpaceClaims
  dropCopy(database: string): Promise<void>
}

export interface Prepared {
  manifest: store.StoredManifest
  /** As `bytes` of a backup. */
  bytes: number
  warnings: string[]
}

const namedDifferences = 10

/** All databases of a project, because a restore or cutover exchanges their names, and the control database. */
export const recoveredDatabases = (control: string, ref: string): string[] => [control, ...databasesOf(ref)]

export async function prepareCopy(deps: PrepareDeps, job: store.Job, watching: Watching): Promise<Prepared> {
  const { control, cluster, archive, copies } = deps
  const { signal } = watching
  const project = await store.findProject(control, job.project_id)
  if (!project) throw new Error('the project was deleted')
  const database = recoveredOf(project.ref)
  // Of earlier attempts, and of jobs that were given up.
  await deps.dropCopy(database)
  await copies.removeFolder(project.id)
  watching.progress('recovering', 0)
  await archive.catchUp(signal)
  const plan = planRecovery(await archive.catalogue(signal), job.target_time)
  const databases = recoveredDatabases(cluster.control, project.ref)
  const copy = copyBytes(plan, databases)
  const space = await deps.claims.claim(neededBytes(plan, databases) + copy, signal)
  try {
    const server = await startServer(deps, plan, databases, watching)
    space.reduceTo(copy)
    const archived = await archiveRecovered(deps, job, project.ref, server, watching).finally(server.stop)
    const warnings = await restoreCopy(deps, job, project, archived.manifest, watching)
    return { ...archived, warnings }
  } catch (error) {
    await deps.dropCopy(database).catch(() => {})
    await copies.removeFolder(project.id).catch(() => {})
    throw error
  } finally {
    space.release()
  }
}

const startServer = async (
  { archive, cluster, place, engineSettings: settings }: PrepareDeps,
  plan: RecoveryPlan,
  databases: readonly string[],
  { signal, progress }: Watching,
): Promise<RecoveredServer> =>
  recoverAside({
    place,
    store: await archive.store(signal),
    plan,
    databases,
    password: cluster.address.password,
    settings,
    signal,
    progress: bytes => progress('recovering', bytes),
  })

/** Writes the project from the second server into an archive. */
async function archiveRecovered(
  deps: PrepareDeps,
  job: store.Job,
  ref: string,
  server: RecoveredServer,
  watching: Watching,
): Promise<Omit<Prepared, 'warnings'>> {
  const { copies, deriveKey, dataDir } = deps
  const writer = writeArchive(copies, deriveKey, {
    project: job.project_id,
    backup: job.id,
    attempt: job.attempts,
  })
  let exported: (Pick<Manifest, 'services' | 'files'> & { project: ArchivedProject }) | undefined
  const source = { address: server.address, database: ref, dataDir }
  const database = await writeDatabase(writer, source, watching, async () => {
    exported = await exportControl(deps, server.address, writer, job.project_id)
  })
  const { services, files, project } = exported!
  let [fileCount, fileBytes] = [0, 0]
  for await (const { size } of readLines<{ size: number }>(writer.read(files))) {
    fileCount++
    fileBytes += size
  }
  const counted = { fileCount, fileBytes }
  const contents = { project, database, services, files, ...counted }
  const packed = await writer.finish({ backup: job.id, platform: version, ...contents })
  return { manifest: { ...packed, attempt: job.attempts }, bytes: contentBytes(contents) }
}

/** The control database as it was, which may have been that of an earlier release. */
async function exportControl(
  { cluster, projectData }: PrepareDeps,
  recovered: ServerAddress,
  writer: Parameters<typeof writeControl>[0],
  projectId: string,
) {
  return withClient(recovered, cluster.control, controlSettings, async session => {
    await migratePlatform(session, cluster.platformMigrations)
    await session.script(store.beginSnapshot)
    const project = await store.findProject(session, projectId)
    if (!project) throw new Error('the project did not exist at this time')
    return { project, ...(await writeControl(writer, session, projectData, projectId)) }
  })
}

/** Returns what the operator should know. */
async function restoreCopy(
  deps: PrepareDeps,
  job: store.Job,
  project: ArchivedProject,
  manifest: store.StoredManifest,
  watching: Watching,
): Promise<string[]> {
  const { control, cluster, logins, dataDir, backups } = deps
  const { address } = cluster
  const name = { project: project.id, backup: job.id, attempt: job.attempts }
  const archive = await readArchive(deps.copies, deps.deriveKey, name, manifest)
  const database = recoveredOf(project.ref)
  const refs = { from: archive.manifest.project.ref, to: project.ref }
  const owner = logins.address(project.ref, 'owner')
  // The tenant may have changed the password and settings of its login.
  await logins.heal(control, project.ref, 'owner')
  await restoreDatabase(archive, { address, owner, control: cluster.control, database, refs }, watching)
  const differences = await compareDatabase(archive, { address, database, dataDir }, refs, watching)
  if (differences.length > 0) {
    const named = differences.slice(0, namedDifferences).map(({ text }) => text)
    throw new Error(`the recovered copy differs: ${named.join('; ')}`)
  }
  const missing = await backups.countMissing(archive, watching.signal)
  return missing === 0
    ? []
    : [`${missing} files of this time were removed since then, and no backup has them. They stay missing.`]
}

/** The copy is about as large as the databases, and WAL is written for it. */
const copyBytes = (plan: RecoveryPlan, databases: readonly string[]) =>
  Math.round(2.2 * databaseBytes(plan, databases))
