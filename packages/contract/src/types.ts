import type { Routes } from './route.ts'
import { Id } from './shapes.ts'
import { Type } from './type.ts'

const ById = Type.Object({ id: Id })
const Schemas = Type.Object({
  schemas: Type.Optional(
    Type.String({ maxLength: 4000, description: 'Names separated by commas; default: the exposed schemas.' }),
  ),
})
const Types = Type.Object({ types: Type.String({ description: 'The text of a TypeScript file.' }) })

export const typesApi = {
  typescript: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/types/typescript',
    scope: 'read',
    summary: 'The type `Database` that client libraries take, for the project’s schema as it is now',
    params: ById,
    query: Schemas,
    reply: Types,
  },
  drizzle: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/types/drizzle',
    scope: 'read',
    summary: 'The project’s schema as tables, views, enums and relations of Drizzle',
    params: ById,
    query: Schemas,
    reply: Types,
  },
} as const satisfies Routes
