// Caches the catalogue of each project in use until a statement finds that the schema has changed. Every statement
// planned from a catalogue compares the version itself, so no notification or polling is needed.
import { arrayLiteral } from '#src/kernel/postgres/array-literal.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { type Databases, statement } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { platformCaller, readOnlyFacts } from '#src/tenancy/platform-caller.ts'
import type { Catalog } from './catalog.ts'
import { readFacts } from './catalog-facts.ts'
import { catalogFrom } from './catalog-from.ts'
import { catalogQuery } from './catalog-query.ts'

export interface Catalogs {
  /** Not a promise if the catalogue is cached. */
  of(tenant: Tenant): Catalog | Promise<Catalog>
  /** Whether the schema has changed since this catalogue was read. If so, drops the catalogue from the cache. */
  hasChanged(tenant: Tenant, catalog: Catalog): Promise<boolean>
}

const maxCatalogs = 1000
const readCatalog = statement(catalogQuery, false)
const readVersion = statement('select pg_catalog.max(version) from platform.catalog_version', true)

export function openCatalogs(databases: Databases): Catalogs {
  const known = new Map<string, Catalog>()
  const loading = new Map<string, Promise<Catalog>>()
  databases.onIdle(id => void known.delete(id))

  async function load(tenant: Tenant): Promise<Catalog> {
    const schemas = arrayLiteral(tenant.exposedSchemas)
    const { rows } = await databases.asCaller(platformCaller(tenant), readOnlyFacts, readCatalog, [schemas])
    const read = await inSlices(readFacts(rows))
    return inSlices(catalogFrom(read, tenant.exposedSchemas))
  }

  /** Concurrent callers share one read. */
  function loadOnce(tenant: Tenant): Promise<Catalog> {
    const running = loading.get(tenant.id)
    if (running) return running
    const started: Promise<Catalog> = load(tenant)
      .then(catalog => {
        if (loading.get(tenant.id) !== started) return catalog
        if (known.size >= maxCatalogs) known.delete(known.keys().next().value!)
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
    async hasChanged(tenant, catalog) {
      const { rows } = await databases.asCaller(platformCaller(tenant), readOnlyFacts, readVersion, [])
      if (rows[0]?.[0]?.toString() === String(catalog.version)) return false
      if (known.get(tenant.id) === catalog) forget(tenant.id)
      return true
    },
  }
}

const isSame = (a: readonly string[], b: readonly string[]) =>
  a === b || (a.length === b.length && a.every((name, index) => name === b[index]))
