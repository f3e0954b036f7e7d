// Refuses a large body that its sender may not write, or that has nowhere to go, before it is parsed. One more
// statement is worth it only where parsing takes long.
import { callAdmissionSql, writeAdmissionSql } from '#src/query/admission-sql.ts'
import type { Catalog, Relation } from '#src/query/catalog.ts'
import { unknownFunction } from '#src/query/unknown-names.ts'
import { type Execute, preparedFrom } from './execute.ts'
import { relationOf } from './read.ts'
import type { RestRequest } from './request.ts'

/** Smaller bodies are parsed in about a millisecond. */
export const quickBytes = 64 * 1024

export interface Admission {
  readonly table: string
  readonly privileges: readonly ('INSERT' | 'UPDATE')[]
  /** Throws if the request asks for what the relation does not have. */
  check(catalog: Catalog, relation: Relation): void
  /** Everything the check depends on. */
  readonly shape: string
}

export async function admitWrite(
  request: RestRequest,
  { table, privileges, check, shape }: Admission,
  execute: Execute,
): Promise<void> {
  const { schema } = request
  await execute(
    request,
    ['admit', schema, table, privileges.join(), shape].join('\0'),
    catalog => {
      const relation = relationOf(catalog, schema, table)
      check(catalog, relation)
      return preparedFrom(writeAdmissionSql(catalog, relation, privileges), true)
    },
    { values: [] },
  )
}

export async function admitCall(request: RestRequest, name: string, execute: Execute): Promise<void> {
  const { schema } = request
  await execute(
    request,
    ['admit call', schema, name].join('\0'),
    catalog => {
      if (catalog.functions(schema, name).length === 0) throw unknownFunction(catalog, schema, name)
      return preparedFrom(callAdmissionSql(catalog, schema, name), true)
    },
    { values: [] },
  )
}
