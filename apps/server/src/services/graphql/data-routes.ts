import type { graphqlApi } from '@plinth/contract/graphql.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import type { GraphqlService } from './service.ts'

export const graphqlRoutes = (graphql: GraphqlService): Handlers<typeof graphqlApi, Caller> => ({
  run: (_input, caller, request) => graphql.answer(caller, request),
  read: (_input, caller, request) => graphql.answer(caller, request),
})
