import { adminApi } from '@plinth/contract/admin.ts'
import type { Opened } from '#src/planes/service.ts'
import { adminRoutes } from './management-routes.ts'
import { type AdminDeps, type AdminService, adminService } from './service.ts'

export function openAdmin(deps: AdminDeps): Opened<AdminService> {
  const service = adminService(deps)
  return { name: 'admin', service, mount: to => to.management(adminApi, adminRoutes(service)) }
}
