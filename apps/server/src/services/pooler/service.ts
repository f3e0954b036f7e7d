// How people reach a project's database themselves: a connection string for the project's owner.
import type { PoolerInfo } from '@plinth/contract/pooler.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { formatDatabaseUrl, type ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Logins } from '#src/tenancy/logins.ts'

export type PoolerService = ReturnType<typeof poolerService>

export function poolerService(control: Database, logins: Logins, owner: OwnerWork) {
  /** People come over TCP where they can; the platform itself may have come through the socket. */
  async function asPeopleReachIt(address: ServerAddress): Promise<ServerAddress> {
    if (!address.host.startsWith('/')) return address
    const server = await control.row<{ listens: string }>(
      sql`select current_setting('listen_addresses') as listens`,
    )
    const hosts = (server?.listens ?? '').split(',').map(host => host.trim())
    const isOnLoopback = hosts.some(host => ['*', '0.0.0.0', 'localhost', '127.0.0.1'].includes(host))
    return isOnLoopback ? { ...address, host: '127.0.0.1' } : address
  }

  return {
    async reveal(projectId: string): Promise<PoolerInfo> {
      // Logging in once puts right a login that the tenant has broken, so that what is shown works.
      const { id, ref } = await owner.look(projectId, async (_session, tenant) => tenant)
      const address = await asPeopleReachIt(logins.address(ref, 'owner'))
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
