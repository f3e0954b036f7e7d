import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { type Place, requireTable } from '#src/services/schema/service.ts'

/** Only tables have policies. A view uses those of its underlying tables. */
export async function requireProtectable(session: Session, { schema, table }: Place) {
  const relation = await requireTable(session, schema, table)
  if (relation.kind === 'table' || relation.kind === 'partitioned_table') return relation
  throw new Refusal(
    'invalid_request',
    `${JSON.stringify(table)} is a ${relation.kind.replace('_', ' ')}: row-level security belongs to tables`,
  )
}
