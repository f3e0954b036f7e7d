// The functions of a project as callers see them, in memory. They are read again when the project changes: its functions,
// secrets, keys, settings or quotas.
import { createHash } from 'node:crypto'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type FunctionRow, readCallable } from './store.ts'

export interface Callable {
  readonly functions: ReadonlyMap<string, FunctionRow>
  /** Changes with everything that a running worker depends on. */
  readonly fingerprint: string
}

export type FindCallable = (tenant: Tenant) => Callable | Promise<Callable>

/** The directory creates a new Tenant whenever the project has changed. */
export function createFindCallable(control: Database): FindCallable {
  const known = new WeakMap<Tenant, Callable>()
  const loading = new WeakMap<Tenant, Promise<Callable>>()

  async function load(tenant: Tenant): Promise<Callable> {
    const { functions, secrets } = (await readCallable(control, tenant.id))!
    const { anonKey, serviceRoleKey, signingKeys, quotas, settings } = tenant
    const basis = [
      functions,
      secrets,
      anonKey,
      serviceRoleKey,
      signingKeys.jwks(),
      quotas.function_memory_mb,
      settings['functions'],
    ]
    const callable: Callable = {
      functions: new Map(functions.map(each => [each.name, each])),
      fingerprint: createHash('sha256').update(JSON.stringify(basis)).digest('hex'),
    }
    known.set(tenant, callable)
    return callable
  }

  return tenant => {
    const found = known.get(tenant)
    if (found) return found
    const running = loading.get(tenant)
    if (running) return running
    const started = load(tenant).finally(() => loading.delete(tenant))
    loading.set(tenant, started)
    return started
  }
}
