// Writes what services store about a project in the control database into an archive.
import type { Session } from '#src/kernel/postgres/database.ts'
import type { ProjectData } from '#src/tenancy/project-data.ts'
import type { ArchiveWriter } from './archive.ts'
import { writeLines } from './json-lines.ts'
import type { Manifest } from './manifest.ts'

/** The session must be in a transaction with one snapshot. */
export async function writeControl(
  archive: ArchiveWriter,
  session: Session,
  projectData: ProjectData,
  projectId: string,
): Promise<Pick<Manifest, 'services' | 'files'>> {
  const services: Manifest['services'] = []
  for (const { service, rows } of projectData.export(session, projectId))
    services.push({ service, file: await archive.add(write => writeLines(rows, write)) })
  const files = await archive.add(write => writeLines(projectData.listFiles(session, projectId), write))
  return { services, files }
}
