// The connection string for direct access to a project's database as its owner.
import type { PoolerInfo } from '@plinth/contract/pooler.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { formatDatabaseUrl, type ServerAddress } from '#src/kernel/postgres/server-address.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import { listenAddresses } from './store.ts'

export type PoolerService = ReturnType<typeof poolerService>

export function poolerService(control: Database, logins: Logins, owner: OwnerWork) {
  /** The platform may connect through a Unix socket. Clients get the TCP address if the server listens on it. */
  async function clientAddress(address: ServerAddress): Promise<ServerAddress> {
    if (!address.host.startsWith('/')) return address
    const hosts = await listenAddresses(control)
    const isOnLoopback = hosts.some(host => ['*', '0.0.0.0', 'localhost', '127.0.0.1'].includes(host))
    return isOnLoopback ? { ...address, host: '127.0.0.1' } : address
  }

  return {
    async reveal(projectId: string): Promise<PoolerInfo> {
      // One connection as owner repairs a login that the project has changed, so that the connection string works.
      const { id, ref } = await owner.look(projectId, async (_session, tenant) => tenant)
      const address = await clientAddress(logins.address(ref, 'owner'))
      return {
        project_id: id,
        enabled: false,
        mode: 'transaction',
        pooled: null,
        direct: formatDatabaseUrl(address, ref),
      }
    },
  }
}
