import type { graphqlManagementApi } from '@plinth/contract/graphql.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import { jsonText } from '#src/kernel/json-text.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { GraphqlService } from './service.ts'

export const graphqlManagementRoutes = (
  graphql: GraphqlService,
  owner: OwnerWork,
): Handlers<typeof graphqlManagementApi, Actor> => ({
  schema: async ({ params, query }) => {
    const tenant = await owner.tenant(params.id)
    return jsonText({ types: await graphql.print(tenant, query.role ?? 'authenticated', query.schema) })
  },
})
