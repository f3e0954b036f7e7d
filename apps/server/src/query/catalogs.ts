// The catalogue of each project that is in use, remembered until somebody finds that its schema has moved on:
// every statement made from it compares the version, so nothing has to be told, polled or listened for.
import { inSlices } from '#src/kernel/slices.ts'
import type { Caller, Databases, RequestFacts } from '#src/tenancy/databases.ts'
import { statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import type { Catalog } from './catalog.ts'
import { readFacts } from './catalog-facts.ts'
import { catalogFrom } from './catalog-from.ts'
import { catalogQuery } from './catalog-query.ts'
import { arrayLiteral } from './filter.ts'

export interface Catalogs {
  /** At once when it is remembered. */
  of(tenant: Tenant): Catalog | Promise<Catalog>
  /** Whether the schema is no longer the one of this catalogue, which is then forgotten. */
  hasMoved(tenant: Tenant, catalog: Catalog): Promise<boolean>
  forget(id: string): void
}

const remembered = 1000
const facts: RequestFacts = { method: 'GET', path: '', headers: '{}', isReadOnly: true }
const readCatalog = statement(catalogQuery, false)
const readVersion = statement('select pg_catalog.max(version) from platform.catalog_version', true)

export function openCatalogs(databases: Databases): Catalogs {
  const known = new Map<string, Catalog>()
  const loading = new Map<string, Promise<Catalog>>()
  databases.onIdle(id => void known.delete(id))

  async function load(tenant: Tenant): Promise<Catalog> {
    const schemas = arrayLiteral(tenant.exposedSchemas)
    const { rows } = await databases.asCaller(platform(tenant), facts, readCatalog, [schemas])
    const read = await inSlices(readFacts(rows))
    return inSlices(catalogFrom(read, tenant.exposedSchemas))
  }

  /** Whoever asks while it is being read gets the same one. */
  function loadOnce(tenant: Tenant): Promise<Catalog> {
    const running = loading.get(tenant.id)
    if (running) return running
    const started: Promise<Catalog> = load(tenant)
      .then(catalog => {
        if (loading.get(tenant.id) !== started) return catalog
        if (known.size >= remembered) known.delete(known.keys().next().value!)
        known.set(tenant.id, catalog)
        return catalog
      })
      .finally(() => {
        if (loading.get(tenant.id) === started) loading.delete(tenant.id)
      })
    loading.set(tenant.id, started)
    return started
  }

  function forget(id: string): void {
    known.delete(id)
    loading.delete(id)
  }

  return {
    of(tenant) {
      const catalog = known.get(tenant.id)
      if (catalog && isSame(catalog.schemas, tenant.exposedSchemas)) return catalog
      if (catalog) forget(tenant.id)
      return loadOnce(tenant)
    },
    async hasMoved(tenant, catalog) {
      const { rows } = await databases.asCaller(platform(tenant), facts, readVersion, [])
      if (rows[0]?.[0]?.toString() === String(catalog.version)) return false
      if (known.get(tenant.id) === catalog) forget(tenant.id)
      return true
    },
    forget,
  }
}

const isSame = (a: readonly string[], b: readonly string[]) =>
  a === b || (a.length === b.length && a.every((name, index) => name === b[index]))

/** The schema is the same for everybody; it is read under a login of the project itself. */
const platform = (tenant: Tenant): Caller => ({
  tenant,
  role: 'service_role',
  claims: '{"role":"service_role"}',
  userId: '',
  sessionId: '',
})
