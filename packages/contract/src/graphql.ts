// GraphQL over the tables and functions of a project. The schema depends on the project's database and on the role.
import type { DataRoute, Method, Role, Routes } from './route.ts'
import { Id } from './shapes.ts'
import { Type } from './type.ts'

const route = <M extends Method>(method: M, summary: string) =>
  ({
    plane: 'data',
    method,
    path: '/graphql/{project}',
    params: Type.Object({ project: Id }),
    allow: ['anon', 'authenticated', 'service_role'],
    summary,
    raw: true,
    reply: Type.Unknown({ description: 'An object with "data", and with "errors" if something is wrong.' }),
  }) as const satisfies DataRoute

export const graphqlApi = {
  // Only the document shows whether it writes. The handler refuses mutations while space is exhausted.
  run: route('POST', 'Run a GraphQL query or mutation: { query, variables, operationName, extensions }'),
  read: route('GET', 'Run a GraphQL query, with the same fields in the query string'),
} as const satisfies Routes

const roles = ['anon', 'authenticated', 'service_role'] as const satisfies readonly Role[]

export const graphqlManagementApi = {
  schema: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/types/graphql',
    scope: 'read',
    summary: 'Read the GraphQL schema that a role sees, in the schema language',
    params: Type.Object({ id: Id }),
    query: Type.Object({
      role: Type.Optional(Type.Enum([...roles], { description: 'Default: authenticated.' })),
      schema: Type.Optional(
        Type.String({ maxLength: 63, description: 'An exposed schema; default: the first one.' }),
      ),
    }),
    reply: Type.Object({ types: Type.String({ description: 'The schema in the language of GraphQL.' }) }),
  },
} as const satisfies Routes
