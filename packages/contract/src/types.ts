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
    summary: 'Generate the type `Database` for client libraries from the current schema of the project',
    params: ById,
    query: Schemas,
    reply: Types,
  },
  drizzle: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/types/drizzle',
    scope: 'read',
    summary: 'Generate Drizzle tables, views, enums and relations from the schema of the project',
    params: ById,
    query: Schemas,
    reply: Types,
  },
} as const satisfies Routes
