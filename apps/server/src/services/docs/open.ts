import { docsApi } from '@plinth/contract/docs.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Opened } from '#src/planes/service.ts'
import { docsRoutes } from './management-routes.ts'
import { type DocsService, docsService } from './service.ts'

export function openDocs(deps: { owner: OwnerWork; baseUrl(): string }): Opened<DocsService> {
  const service = docsService(deps.owner, deps.baseUrl)
  return { name: 'docs', service, mount: to => to.management(docsApi, docsRoutes(service)) }
}
