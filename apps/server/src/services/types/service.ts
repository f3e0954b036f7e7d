// Generates types for applications from the current schema.
import { jsonText } from '#src/kernel/json-text.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { describeSchemas } from '#src/query/describe.ts'
import { drizzle } from './drizzle/document.ts'
import { typescript } from './typescript/document.ts'

export type TypesService = ReturnType<typeof typesService>

export function typesService(owner: OwnerWork) {
  /** Without names, the exposed schemas of the project. */
  const described = (id: string, list: string | undefined) =>
    owner.look(id, (session, { exposedSchemas }) => describeSchemas(session, namesIn(list), exposedSchemas))

  const answer = async (written: Sliced<string>) => jsonText({ types: await inSlices(written) })

  return {
    typescript: async (id: string, schemas: string | undefined) =>
      answer(typescript(await described(id, schemas))),
    drizzle: async (id: string, schemas: string | undefined) => answer(drizzle(await described(id, schemas))),
  }
}

const namesIn = (list: string | undefined): string[] =>
  (list ?? '')
    .split(',')
    .map(name => name.trim())
    .filter(name => name !== '')
