import type { Routes } from './route.ts'
import { Id } from './shapes.ts'
import { Type } from './type.ts'

export const docsApi = {
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/docs',
    scope: 'none',
    fuller: 'read',
    summary:
      'OpenAPI description of the project’s tables and functions: those that anon may use, or all with a credential',
    params: Type.Object({ id: Id }),
    query: Type.Object({
      schema: Type.Optional(Type.String({ maxLength: 63, description: 'Only this exposed schema.' })),
    }),
    raw: true,
    reply: Type.Record(Type.String(), Type.Unknown()),
  },
} as const satisfies Routes
