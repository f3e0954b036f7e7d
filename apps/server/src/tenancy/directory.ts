// In-memory cache of projects for the data plane. Every node polls for changed rows. While polling fails, cached entries
// are valid for one second.
import type { Quotas } from '@plinth/contract/projects.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Log } from '#src/kernel/log.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { credentialContext } from './credentials.ts'
import { exposedSchemasFrom } from './exposed-schemas.ts'
import { followProjects } from './project-changes.ts'
import { type SigningKeyRow, validKeysOfProject } from './signing-keys-store.ts'
import { signingKeysFrom, type TenantSigningKeys } from './tenant-signing-keys.ts'

export interface Tenant {
  readonly id: string
  readonly ref: string
  readonly name: string
  readonly status: 'active' | 'suspended'
  readonly anonKey: string
  readonly serviceRoleKey: string
  readonly jwtSecret: string
  /** Keys of access tokens, if the project signs with ES256. */
  readonly signingKeys: TenantSigningKeys
  readonly quotas: Quotas
  /** Schemas the row API serves; the first is the default. */
  readonly exposedSchemas: readonly string[]
  /** As stored, with encrypted secrets. Each service reads its own part. */
  readonly settings: Readonly<Record<string, unknown>>
}

export interface Directory {
  /** Returns synchronously if the project is cached. */
  find(id: string): Tenant | undefined | Promise<Tenant | undefined>
  /** Reads the current row, without the cache. For listeners of changes. */
  read(id: string): Promise<Tenant | undefined>
  /** Like `find`, with all changes that other nodes have committed before. Waits for the next poll. */
  findCurrent(id: string): Promise<Tenant | undefined>
  forget(id: string): void
  /** The listener is called when a project may have changed or was deleted. */
  onChange(listener: (id: string) => void): void
  close(): Promise<void>
}

const maxCached = 10_000
const maxAgeWhileDisconnectedMs = 1000
const maxUnknownAgeMs = 1000

interface Known {
  tenant: Tenant | undefined
  readAt: number
}

export async function openDirectory(
  control: Database,
  server: { address: ServerAddress; control: string },
  sealer: Sealer,
  log: Log,
): Promise<Directory> {
  const known = new Map<string, Known>()
  // Unknown ids have their own cache, because an attacker could otherwise evict real projects with random ids.
  const unknownIds = new Map<string, Known>()
  const loading = new Map<string, Promise<Tenant | undefined>>()
  const listeners: ((id: string) => void)[] = []

  async function load(id: string): Promise<Tenant | undefined> {
    const row = await findServedProject(control, id)
    return row && tenantFrom(row, sealer)
  }

  function loadOnce(id: string): Promise<Tenant | undefined> {
    const running = loading.get(id)
    if (running) return running
    const started: Promise<Tenant | undefined> = load(id)
      .then(tenant => {
        // If the project changed during the read, the row may be stale and is not cached.
        if (loading.get(id) === started) cache(tenant ? known : unknownIds, id, tenant)
        return tenant
      })
      .finally(() => {
        if (loading.get(id) === started) loading.delete(id)
      })
    loading.set(id, started)
    return started
  }

  function forget(id: string): void {
    known.delete(id)
    unknownIds.delete(id)
    loading.delete(id)
    for (const listener of listeners) listener(id)
  }

  function forgetAll(): void {
    const stale = [...known.keys()]
    known.clear()
    unknownIds.clear()
    loading.clear()
    for (const id of stale) for (const listener of listeners) listener(id)
  }

  const changes = await followProjects(server, { change: forget, gap: forgetAll }, log)

  function find(id: string): Tenant | undefined | Promise<Tenant | undefined> {
    const found = known.get(id) ?? unknownIds.get(id)
    if (found) {
      const trustMs = found.tenant
        ? changes.isCurrent()
          ? Number.POSITIVE_INFINITY
          : maxAgeWhileDisconnectedMs
        : maxUnknownAgeMs
      if (performance.now() - found.readAt <= trustMs) return found.tenant
    }
    return loadOnce(id)
  }

  return {
    find,
    read: load,
    async findCurrent(id) {
      await changes.nextPoll()
      return find(id)
    },
    forget,
    onChange: listener => void listeners.push(listener),
    close: () => changes.close(),
  }
}

/** Evicts the oldest entry at the bound. */
function cache(memory: Map<string, Known>, id: string, tenant: Tenant | undefined): void {
  if (memory.size >= maxCached) memory.delete(memory.keys().next().value!)
  memory.set(id, { tenant, readAt: performance.now() })
}

interface ProjectRow {
  id: string
  ref: string
  name: string
  status: Tenant['status']
  anon_key: string
  service_role_key: string
  jwt_secret: string
  quotas: Quotas
  settings: Record<string, unknown>
  signing_keys: SigningKeyRow[]
}

const findServedProject = (control: Database, id: string) =>
  control.row<ProjectRow>(sql`
    select id, ref, name, status, anon_key, service_role_key, jwt_secret, quotas, settings,
           ${validKeysOfProject} as signing_keys
      from projects where id = ${id} and status in ('active', 'suspended')`)

function tenantFrom(row: ProjectRow, sealer: Sealer): Tenant {
  const open = (column: 'anon_key' | 'service_role_key' | 'jwt_secret') =>
    sealer.open(row[column], credentialContext(row.id, column))
  return Object.freeze({
    id: row.id,
    ref: row.ref,
    name: row.name,
    status: row.status,
    anonKey: open('anon_key'),
    serviceRoleKey: open('service_role_key'),
    jwtSecret: open('jwt_secret'),
    signingKeys: signingKeysFrom(row.id, row.signing_keys, sealer),
    quotas: row.quotas,
    exposedSchemas: Object.freeze(exposedSchemasFrom(row.settings['exposed_schemas'])),
    settings: row.settings,
  })
}
