// Refuses a large body before it is parsed if the caller may not write it, or if its target does not exist.
// The check costs one more statement, so it runs only for bodies that take long to parse.
import { callAdmissionSql, writeAdmissionSql } from '#src/query/admission-sql.ts'
import type { Catalog, Relation } from '#src/query/catalog.ts'
import { findRelation } from '#src/query/plan.ts'
import { plannedStatement } from '#src/query/planned-statement.ts'
import { unknownFunction } from '#src/query/problem.ts'
import type { Run } from '#src/query/run.ts'
import type { RestRequest } from './request.ts'

/** Smaller bodies are parsed in about a millisecond. */
export const quickBytes = 64 * 1024

export interface Admission {
  readonly table: string
  readonly privileges: readonly ('INSERT' | 'UPDATE')[]
  /** Throws if the request does not fit the relation. */
  check(catalog: Catalog, relation: Relation): void
  /** Names everything the check depends on. */
  readonly shape: string
}

export async function admitWrite(
  request: RestRequest,
  { table, privileges, check, shape }: Admission,
  run: Run,
): Promise<void> {
  const { schema } = request
  await run(
    request,
    ['admit', schema, table, privileges.join(), shape].join('\0'),
    catalog => {
      const relation = findRelation(catalog, schema, table)
      check(catalog, relation)
      return plannedStatement(writeAdmissionSql(catalog, relation, privileges), true)
    },
    [],
  )
}

export async function admitCall(request: RestRequest, name: string, run: Run): Promise<void> {
  const { schema } = request
  await run(
    request,
    ['admit call', schema, name].join('\0'),
    catalog => {
      if (catalog.functions(schema, name).length === 0) throw unknownFunction(catalog, schema, name)
      return plannedStatement(callAdmissionSql(catalog, schema, name), true)
    },
    [],
  )
}
