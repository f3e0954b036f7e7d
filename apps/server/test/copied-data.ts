import type { Session } from '#src/kernel/postgres/database.ts'
import type { TestPlatform } from './harness.ts'

/** Gives a project what services store about another one outside its database, without the bytes of files. */
export const copyData = (
  { app: { projectData } }: TestPlatform,
  session: Session,
  from: string,
  to: string,
) => projectData.restore(session, to, from, projectData.export(session, from))
