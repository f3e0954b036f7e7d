import { poolerApi } from '@plinth/contract/pooler.ts'
import type { Endpoint } from '#src/kernel/postgres/server-address.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import { poolerRoutes } from './management-routes.ts'
import { poolerService } from './service.ts'
import { createUserList, type PoolerAccess, type UserListDeps } from './user-list.ts'

export function openPooler(
  deps: UserListDeps & {
    owner: OwnerWork
    directory: Directory
    /** Without a path, the platform writes no user list. */
    settings: (PoolerAccess & { userList: string | undefined }) | undefined
    replica: Endpoint | undefined
  },
): Service {
  const { settings, directory } = deps
  const userList = settings?.userList ? createUserList(deps, settings, settings.userList) : undefined
  const service = poolerService({ ...deps, pooler: settings?.endpoint, userList })
  // Any node may have created or deleted the project. The chore of the list retries a failed refresh.
  if (userList) directory.onChange(() => void userList.refresh().catch(() => {}))
  return {
    name: 'pooler',
    mount: to => to.management(poolerApi, poolerRoutes(service)),
    ...(userList && {
      // The pooler would let clients of a deleted project log in, and then keep them waiting for its database.
      hooks: { removed: () => userList.refreshInTime() },
      warnings: userList.warnings,
      start: userList.start,
      close: userList.close,
    }),
  }
}
