// Which versions of files a project still needs: objects reference them, or the undo of a restore would bring those back.
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Store } from './store.ts'
import { findForUndo } from './sweep-store.ts'

/** Returns those of the versions that are needed. */
export type NeededVersions = (tenant: Tenant, versions: readonly string[]) => Promise<Set<string>>

export const createNeededVersions =
  (control: Database, store: Store): NeededVersions =>
  async (tenant, versions) => {
    const named = await store.namedVersions(tenant, versions)
    const unnamed = versions.filter(version => !named.has(version))
    if (unnamed.length === 0) return named
    return named.union(await findForUndo(control, tenant.id, unnamed))
  }
