// The files of a project go with it. Its key goes first: from then on nothing that is left of them can be read.
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { Attachment } from '#src/tenancy/lifecycle.ts'

export const filesOfProjects = (control: Database, pieces: Pieces): Attachment => ({
  async removed(projectId) {
    await control.run(sql`delete from storage_areas where project_id = ${projectId}`)
    await pieces.removeFolder(projectId)
  },
})
