// OPTIONS: the methods that a table, view or function supports. What the caller may do with them is not considered.
import type { RawReply } from '#src/kernel/http/request.ts'
import { findRelation } from '#src/query/plan.ts'
import { plannedStatement } from '#src/query/planned-statement.ts'
import { unknownFunction } from '#src/query/problem.ts'
import type { Run } from '#src/query/run.ts'
import { unchangedSql, type Writable, writableFrom, writableSql } from '#src/query/writable-sql.ts'
import type { RestRequest } from './request.ts'

const readMethods = ['OPTIONS', 'GET', 'HEAD']

export const methodsReply = (methods: readonly string[]): RawReply => ({
  status: 200,
  headers: { allow: methods.join(',') },
  body: null,
})

export const rootMethods = (): RawReply => methodsReply(readMethods)

export async function tableMethods(request: RestRequest, table: string, run: Run): Promise<RawReply> {
  const { schema } = request
  const { plan, rows } = await run(
    request,
    ['methods', schema, table].join('\0'),
    catalog => {
      const relation = findRelation(catalog, schema, table)
      return {
        ...plannedStatement(writableSql(catalog, relation), true),
        hasKey: relation.primaryKey.length > 0,
      }
    },
    [],
  )
  return methodsReply(methodsOf(writableFrom(rows[0]!), plan.hasKey))
}

/** PUT needs a primary key in its filters. */
const methodsOf = ({ insert, update, delete: deletes }: Writable, hasKey: boolean): string[] => [
  ...readMethods,
  ...(insert ? ['POST'] : []),
  ...(insert && update && hasKey ? ['PUT'] : []),
  ...(update ? ['PATCH'] : []),
  ...(deletes ? ['DELETE'] : []),
]

export async function callMethods(request: RestRequest, name: string, run: Run): Promise<RawReply> {
  const { schema } = request
  if (name === 'exec_sql') return methodsReply(['OPTIONS', 'POST'])
  const { plan } = await run(
    request,
    ['call methods', schema, name].join('\0'),
    catalog => {
      const overloads = catalog.functions(schema, name)
      if (overloads.length === 0) throw unknownFunction(catalog, schema, name)
      return {
        ...plannedStatement(unchangedSql(catalog), true),
        isReadable: overloads.some(({ isVolatile }) => !isVolatile),
      }
    },
    [],
  )
  return methodsReply(plan.isReadable ? [...readMethods, 'POST'] : ['OPTIONS', 'POST'])
}
