// Backups of projects while no service is open, because the control database is not migrated yet.
import type { DeriveKey } from '#src/kernel/crypto/keys.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { BackupDeps } from '#src/services/backups/make-backup.ts'
import { jobData } from '#src/services/cron/open.ts'
import { templatesData } from '#src/services/email/open.ts'
import { createArchives } from '#src/services/functions/archives.ts'
import { functionsData } from '#src/services/functions/project-data.ts'
import { settingsData } from '#src/services/projects/project-data.ts'
import { savedQueriesData } from '#src/services/queries/open.ts'
import { secretsData } from '#src/services/secrets/service.ts'
import { storageData } from '#src/services/storage/project-data.ts'
import { webhooksData } from '#src/services/webhooks/project-data.ts'
import type { Cluster } from '#src/tenancy/cluster.ts'
import { createLogins } from '#src/tenancy/logins.ts'
import { createProjectData } from '#src/tenancy/project-data.ts'

interface Stores {
  cluster: Cluster
  deriveKey: DeriveKey
  sealer: Sealer
  pieces: Pieces
  backupPieces: Pieces
  dataDir: string
}

/** `control` is the database from which services export, and in which backups are recorded. */
export function backupDepsOf(control: Database, stores: Stores): BackupDeps {
  const { sealer, pieces, backupPieces, ...rest } = stores
  const projectData = createProjectData()
  const hooks = {
    storage: storageData(sealer),
    email: templatesData,
    projects: settingsData(sealer),
    cron: jobData,
    queries: savedQueriesData,
    secrets: secretsData(sealer),
    functions: functionsData(createArchives(control, pieces, sealer)),
    webhooks: webhooksData(sealer),
  }
  for (const [service, hook] of Object.entries(hooks)) projectData.addHooks(service, hook)
  return {
    ...rest,
    control,
    logins: createLogins(stores.cluster.address, stores.deriveKey),
    live: pieces,
    backups: backupPieces,
    projectData,
  }
}
