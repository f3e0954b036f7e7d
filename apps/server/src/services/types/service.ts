// Types for applications, written from the schema as it is.
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { describeSchemas } from '#src/query/describe.ts'
import { drizzle } from './drizzle/document.ts'
import { typescript } from './typescript/document.ts'

export type TypesService = ReturnType<typeof typesService>

export function typesService(owner: OwnerWork) {
  /** Without names, the schemas the project exposes. */
  const described = (id: string, list: string | undefined) =>
    owner.look(id, (session, { exposedSchemas }) => describeSchemas(session, namesIn(list), exposedSchemas))

  return {
    typescript: async (id: string, schemas: string | undefined) => ({
      types: typescript(await described(id, schemas)),
    }),
    drizzle: async (id: string, schemas: string | undefined) => ({
      types: drizzle(await described(id, schemas)),
    }),
  }
}

const namesIn = (list: string | undefined): string[] =>
  (list ?? '')
    .split(',')
    .map(name => name.trim())
    .filter(name => name !== '')
