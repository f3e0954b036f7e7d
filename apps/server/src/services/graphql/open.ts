import { graphqlApi, graphqlManagementApi } from '@plinth/contract/graphql.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Service } from '#src/planes/service.ts'
import { graphqlRoutes } from './data-routes.ts'
import { graphqlManagementRoutes } from './management-routes.ts'
import { type GraphqlDeps, graphqlService } from './service.ts'

export function openGraphql(deps: GraphqlDeps & { owner: OwnerWork }): Service {
  const service = graphqlService(deps)
  return {
    name: 'graphql',
    mount(to) {
      to.data(graphqlApi, graphqlRoutes(service))
      to.management(graphqlManagementApi, graphqlManagementRoutes(service, deps.owner))
    },
    close: () => service.close(),
  }
}
