import { branchesApi } from '@plinth/contract/branches.ts'
import { startChore } from '#src/kernel/chores.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { JsonText } from '#src/kernel/json-text.ts'
import { queueDepth, workerMetrics } from '#src/kernel/metrics.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { dropCopy } from '#src/tenancy/provision.ts'
import type { RequestHolds } from '#src/tenancy/request-holds.ts'
import type { SpaceCheck } from '#src/tenancy/space-check.ts'
import { createTemplateCopies, type TemplateCopyOptions } from '#src/tenancy/template-copy.ts'
import type { WhenUpgraded } from '#src/tenancy/upgrades.ts'
import { dropLeft } from './left-databases.ts'
import type { BranchDeps } from './make-branch.ts'
import { branchesRoutes } from './management-routes.ts'
import { branchesService } from './service.ts'
import * as store from './store.ts'
import { startTaskFilesWorker } from './task-files.ts'
import { startBranchWorker } from './worker.ts'

interface BranchesDeps extends Omit<BranchDeps, 'dropCopy' | 'templates'>, TemplateCopyOptions {
  owner: OwnerWork
  directory: Directory
  holds: RequestHolds
  spaceCheck: SpaceCheck
  upgrades: { whenUpgraded: WhenUpgraded }
  sealer: Sealer
  baseUrl(): string
  compare(parentId: string, branchId: string): Promise<JsonText>
}

const choreMs = 30_000

export function openBranches(deps: BranchesDeps): Service {
  const { control, cluster, directory, log } = deps
  const templates = createTemplateCopies(cluster, deps.holds, deps)
  const drop = (database: string) => dropCopy(cluster, database)
  const worker = startBranchWorker({ ...deps, templates, dropCopy: drop, changed: directory.forget })
  const taskFiles = startTaskFilesWorker(deps)
  const service = branchesService({
    ...deps,
    wake() {
      worker.wake()
      taskFiles.wake()
    },
    sharesBlocks: templates.sharesBlocks,
    whenUpgraded: deps.upgrades.whenUpgraded,
  })
  const chores = [
    { name: 'branches: delete expired', run: service.removeExpired },
    {
      name: 'branches: drop what resets have left',
      run: (signal: AbortSignal) => dropLeft({ cluster, dropCopy: drop }, signal),
    },
  ].map(chore => startChore({ ...chore, everyMs: choreMs, runsAtStart: true }, log))
  return {
    name: 'branches',
    mount: to => to.management(branchesApi, branchesRoutes(service)),
    hooks: {
      removing: service.checkRemovable,
      async removed(projectId) {
        await store.deleteBranch(control, projectId)
      },
    },
    metrics: [...workerMetrics('branches', worker.use), queueDepth('branches', store.countTasks)],
    async close() {
      for (const chore of chores) await chore.stop()
      await Promise.all([worker.close(), taskFiles.close()])
    },
  }
}
