import { projectsApi } from '@plinth/contract/projects.ts'
import type { Service } from '#src/planes/service.ts'
import { projectsRoutes } from './management-routes.ts'
import { settingsData } from './project-data.ts'
import { type ProjectsDeps, projectsService } from './service.ts'

export function openProjects(deps: ProjectsDeps): Service {
  const service = projectsService(deps)
  return {
    name: 'projects',
    mount: to => to.management(projectsApi, projectsRoutes(service)),
    data: settingsData(deps.sealer),
  }
}
