// Warnings about tables without row-level security in schemas that a request exposes.
import type { ExposureWarning } from '@plinth/contract/projects.ts'
import type { OpenTables } from '#src/services/rls/service.ts'

export const warningsAbout = (found: readonly OpenTables[]): ExposureWarning[] =>
  found.map(({ schema, tables, total }) => ({
    code: 'tables_without_rls',
    message: `Schema ${JSON.stringify(schema)} has ${total === 1 ? 'a table' : `${total} tables`} without row-level security: ${listed(tables, total)}. Every role with a grant on such a table reads all its rows; enable row-level security on it and add policies`,
    schema,
    tables,
    total,
  }))

const listed = (tables: readonly string[], total: number) =>
  tables.length < total ? `${tables.join(', ')} and ${total - tables.length} more` : tables.join(', ')

export const notChecked: ExposureWarning = {
  code: 'rls_not_checked',
  message:
    'The setting is saved, but the database could not be searched for tables without row-level security; see the row-level security status of each schema',
  schema: null,
  tables: [],
  total: 0,
}
