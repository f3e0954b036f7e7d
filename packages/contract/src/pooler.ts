import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Id, Nullable } from './shapes.ts'
import { Type } from './type.ts'

export const PoolerInfo = Type.Object({
  project_id: Id,
  enabled: Type.Boolean({ description: 'Whether the platform has a pooler.' }),
  mode: Type.String({
    description: 'How the pooler assigns connections: transaction, for the time of a transaction.',
  }),
  pooled: Nullable(
    Type.String({ description: 'A connection through the pooler as the owner; null without a pooler.' }),
  ),
  direct: Type.String({ description: 'A direct connection as the owner of the project.' }),
  read_only: Type.Optional(
    Type.String({ description: 'A connection to the read replica, if the platform has one.' }),
  ),
})
export type PoolerInfo = Static<typeof PoolerInfo>

export const poolerApi = {
  reveal: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/pooler',
    scope: 'admin',
    audit: 'project.connection_strings_revealed',
    summary: 'Reveal the connection strings of a project’s database',
    params: Type.Object({ id: Id }),
    reply: PoolerInfo,
  },
} as const satisfies Routes
