// The connection strings of a project's database, as its owner: direct, through the pooler, and to the replica.
import type { PoolerInfo } from '@plinth/contract/pooler.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { type Endpoint, formatDatabaseUrl, type ServerAddress } from '#src/kernel/postgres/server-address.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Logins } from '#src/tenancy/logins.ts'
import { listenAddresses } from './store.ts'
import type { UserList } from './user-list.ts'

export interface PoolerDeps {
  control: Database
  logins: Logins
  owner: OwnerWork
  /** Where applications reach the pooler and the replica, if there are any. */
  pooler: Endpoint | undefined
  replica: Endpoint | undefined
  userList: UserList | undefined
}

export type PoolerService = ReturnType<typeof poolerService>

export function poolerService({ control, logins, owner, pooler, replica, userList }: PoolerDeps) {
  /** The platform may connect through a Unix socket. Clients get the TCP address if the server listens on it. */
  async function clientAddress(address: ServerAddress): Promise<ServerAddress> {
    if (!address.host.startsWith('/')) return address
    const hosts = await listenAddresses(control)
    const isOnLoopback = hosts.some(host => ['*', '0.0.0.0', 'localhost', '127.0.0.1'].includes(host))
    return isOnLoopback ? { ...address, host: '127.0.0.1' } : address
  }

  /** After this, the pooled string works, unless health has a warning about the pooler. */
  async function admitToPooler(ref: string): Promise<void> {
    if (!userList) return
    await userList.repairLogin(ref)
    await userList.refreshInTime()
  }

  return {
    async reveal(projectId: string): Promise<PoolerInfo> {
      // One connection as owner repairs a login that the project has changed, so that the connection string works.
      const { id, ref } = await owner.look(projectId, async (_session, tenant) => tenant)
      await admitToPooler(ref)
      const login = logins.address(ref, 'owner')
      const at = (endpoint: Endpoint) => formatDatabaseUrl({ ...login, ...endpoint }, ref)
      return {
        project_id: id,
        enabled: pooler !== undefined,
        mode: 'transaction',
        pooled: pooler ? at(pooler) : null,
        direct: formatDatabaseUrl(await clientAddress(login), ref),
        ...(replica && { read_only: at(replica) }),
      }
    },
  }
}
