import type { Routes } from './route.ts'
import { Id, Nullable } from './shapes.ts'
import { Type } from './type.ts'

export const whoamiApi = {
  read: {
    plane: 'data',
    method: 'GET',
    path: '/whoami/{project}',
    allow: ['anon', 'authenticated', 'service_role'],
    summary: 'Read the project, role and user of the sent credentials',
    params: Type.Object({ project: Id }),
    reply: Type.Object({ project_id: Id, role: Type.String(), user_id: Nullable(Type.String()) }),
  },
} as const satisfies Routes
