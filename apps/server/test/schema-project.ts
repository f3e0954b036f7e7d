// A project whose tables are changed through the schema routes of the management API.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import { type CallOptions, type Reply, startPlatform, type TestPlatform } from './harness.ts'

export const idColumn = { name: 'id', type: 'bigint', identity: 'always', primary_key: true }
export const errorOf = ({ status, body }: Reply) => [status, body?.error?.code]

export function schemaProject() {
  const project = {} as { platform: TestPlatform; id: string }
  before(async () => {
    project.platform = await startPlatform()
    project.id = (await project.platform.createProject()).id
  })
  after(() => project.platform.stop())

  const call = (method: string, path: string, body?: unknown, options: CallOptions = {}): Promise<Reply> =>
    project.platform.call(method, `/api/v1/projects/${project.id}/schema${path}`, {
      token: project.platform.adminToken,
      ...(body !== undefined && { body }),
      ...options,
    })
  const create = (body: unknown) => call('POST', '/tables', body)

  return {
    project,
    call,
    create,
    /** Creates a table, which must succeed. */
    async createTable(body: unknown) {
      const reply = await create(body)
      assert.equal(reply.status, 201, JSON.stringify(reply.body))
      return reply.body
    },
    async asOwner(text: string) {
      const ref = await project.platform.refOf(project.id)
      return project.platform.app.databases.asOwner({ ref }, session => session.script(text))
    },
    tableNames: async (query = ''): Promise<string[]> =>
      (await call('GET', `/tables${query}`)).body.tables.map(({ name }: { name: string }) => name),
  }
}
