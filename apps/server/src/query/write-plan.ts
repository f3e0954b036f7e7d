// Plans a change of rows: resolves its names in the catalogue. These functions are pure.
import type { Relation } from './catalog.ts'
import type { Change, Conflict, PayloadColumn, PayloadColumns } from './items.ts'
import { QueryError, unknownColumn, unknownPayloadColumn } from './problem.ts'
import { json, jsonb } from './value-sql.ts'
import type { Write, WrittenColumn, WrittenPayload } from './write-sql.ts'

export function planWrite(relation: Relation, change: Change): Write {
  switch (change.kind) {
    case 'delete':
    case 'nothing':
      return change
    case 'update':
      return { kind: 'update', payload: planPayload(relation, change.payload) }
    case 'insert': {
      const payload = planPayload(relation, change.payload)
      const conflict = change.conflict && planConflict(relation, change.conflict)
      return { kind: 'insert', payload, conflict }
    }
  }
}

const planPayload = (
  relation: Relation,
  { columns, isArray, isText, slot }: PayloadColumns,
): WrittenPayload => ({
  columns: columns.map(each => planColumn(relation, each, isText)),
  isArray,
  slot,
})

export function planColumn(
  relation: Relation,
  { name, isSparse }: PayloadColumn,
  isText: boolean,
): WrittenColumn {
  const column = relation.columns.get(name)
  if (!column) throw unknownPayloadColumn(relation.name, name, relation.columns.keys())
  const readBy = column.representation?.[isText ? 'fromText' : 'fromJson']
  const isJson = column.base === json || column.base === jsonb
  return { column, isSparse, readBy, isText: isText && (isJson || readBy !== undefined) }
}

function planConflict(
  { name, columns, primaryKey }: Relation,
  conflict: Conflict,
): { merges: boolean; target: readonly string[] } {
  const target = conflict.columns ?? primaryKey
  for (const column of target) if (!columns.has(column)) throw unknownColumn(name, column, columns.keys())
  if (conflict.merges && target.length === 0)
    throw new QueryError({ kind: 'no conflict target', relation: name })
  return { merges: conflict.merges, target }
}
