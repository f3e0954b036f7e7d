// What a project's API offers, for its developers and for whoever holds its anon key.
import { Refusal } from '#src/kernel/errors.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import { describeSchemas } from '#src/query/describe.ts'
import { type Audience, projectDocument } from './document.ts'
import type { Json } from './json-schema.ts'
import { sharedWork } from './shared-work.ts'

export type DocsService = ReturnType<typeof docsService>

export function docsService(owner: OwnerWork, baseUrl: () => string) {
  // Anybody may ask, without a key: a project's database is asked by one of them at a time.
  const described = sharedWork((id: string) =>
    owner.look(id, (session, { exposedSchemas }) => describeSchemas(session, [], exposedSchemas)),
  )

  return {
    async read(id: string, audience: Audience, schema: string | undefined): Promise<Json> {
      const tenant = await owner.tenant(id)
      if (audience === 'anon' && tenant.status === 'suspended')
        throw new Refusal('project_suspended', 'The project is suspended')
      const { exposedSchemas } = tenant
      if (schema !== undefined && !exposedSchemas.includes(schema))
        throw new Refusal('schema_not_found', `The project exposes no schema ${JSON.stringify(schema)}`)
      return projectDocument(await described(id), {
        projectId: id,
        baseUrl: baseUrl(),
        audience,
        schemas: schema === undefined ? exposedSchemas : [schema],
        defaultSchema: exposedSchemas[0],
      })
    },
  }
}
