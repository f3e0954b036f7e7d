import type { schemaApi } from '@plinth/contract/schema.ts'
import type { Handlers } from '#src/kernel/http/plane.ts'
import type { Actor } from '#src/planes/management/actor.ts'
import { requireEcho } from '#src/planes/management/confirm.ts'
import { paging } from '#src/planes/management/paging.ts'
import type { SchemaService } from './service.ts'

export const schemaRoutes = (schema: SchemaService): Handlers<typeof schemaApi, Actor> => ({
  listTables: ({ params, query }) => schema.listTables(params.id, query.schema ?? 'public', paging(query)),
  createTable: ({ params, body }) => schema.createTable(params.id, body),
  async dropTable({ params: { id, table }, query }) {
    requireEcho(table, query.confirm)
    await schema.dropTable(id, { schema: query.schema ?? 'public', table }, query.cascade ?? false)
  },
  addColumn: ({ params: { id, table }, query, body }) =>
    schema.addColumn(id, { schema: query.schema ?? 'public', table }, body),
  async dropColumn({ params: { id, table, col }, query }) {
    requireEcho(col, query.confirm)
    await schema.dropColumn(id, { schema: query.schema ?? 'public', table }, col, query.cascade ?? false)
  },
  listExtensions: ({ params, query }) => schema.listExtensions(params.id, paging(query)),
})
