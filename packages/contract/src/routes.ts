// Every route table by the name of its service: what the server mounts, OpenAPI prints and clients call.
import { adminApi } from './admin.ts'
import { healthApi } from './health.ts'
import { platformApi } from './platform.ts'
import { projectsApi } from './projects.ts'
import type { Routes } from './route.ts'
import { whoamiApi } from './whoami.ts'

export const routeTables = {
  health: healthApi,
  platform: platformApi,
  projects: projectsApi,
  admin: adminApi,
  whoami: whoamiApi,
} as const satisfies Record<string, Routes>
