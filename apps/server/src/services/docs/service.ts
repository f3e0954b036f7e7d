// API documentation of a project, for its developers and for holders of the anon key.
import { Refusal } from '#src/kernel/errors.ts'
import { jsonText } from '#src/kernel/json-text.ts'
import { inSlices } from '#src/kernel/slices.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { describeSchemas } from '#src/query/describe.ts'
import { type Audience, projectDocument, type Subject } from './document.ts'
import { page } from './page.ts'
import { sharedWork } from './shared-work.ts'

export type DocsService = ReturnType<typeof docsService>

export function docsService(owner: OwnerWork, baseUrl: () => string) {
  // The route is open, so only one request at a time reads the project database.
  const described = sharedWork((id: string) =>
    owner.look(id, (session, { exposedSchemas }) => describeSchemas(session, [], exposedSchemas)),
  )

  /** Concurrent requests share one document, because it can have many megabytes. */
  const written = sharedWork(async (key: string): Promise<Buffer | string> => {
    const { id, form, ...subject } = JSON.parse(key) as Asked
    const document = await inSlices(projectDocument(await described(id), { ...subject, projectId: id }))
    return form === 'page' ? inSlices(page(document)) : (await jsonText(document)).bytes
  })

  return {
    async read(id: string, audience: Audience, schema: string | undefined, form: 'json' | 'page') {
      const tenant = await owner.tenant(id)
      if (audience === 'anon' && tenant.status === 'suspended')
        throw new Refusal('project_suspended', 'The project is suspended')
      const { exposedSchemas } = tenant
      if (schema !== undefined && !exposedSchemas.includes(schema))
        throw new Refusal('schema_not_found', `The project exposes no schema ${JSON.stringify(schema)}`)
      const asked: Asked = {
        id,
        form,
        baseUrl: baseUrl(),
        audience,
        schemas: schema === undefined ? exposedSchemas : [schema],
        defaultSchema: exposedSchemas[0],
      }
      return written(JSON.stringify(asked))
    },
  }
}

interface Asked extends Omit<Subject, 'projectId'> {
  id: string
  form: 'json' | 'page'
}
