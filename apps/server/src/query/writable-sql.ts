// The statement that reads which writes a relation supports: as a table, as an automatically updatable view, or with
// INSTEAD OF triggers. The catalogue does not contain this, because Postgres locks a view to find out.
import type { Cell } from '#src/kernel/postgres/wire/unit.ts'
import { isCurrentSql } from './answer-sql.ts'
import type { Catalog, Relation } from './catalog.ts'
import { Writer } from './writer.ts'

export interface Writable {
  readonly insert: boolean
  readonly update: boolean
  readonly delete: boolean
}

export const writableSql = (catalog: Catalog, { oid }: Relation): { sql: string; writer: Writer } => ({
  sql: `select pg_catalog.pg_relation_is_updatable(${oid}, true) where ${isCurrentSql(catalog)}`,
  writer: new Writer(undefined),
})

/** Bits of pg_relation_is_updatable: 1 shifted by the number of the command in Postgres. */
const bits = { update: 1 << 2, insert: 1 << 3, delete: 1 << 4 }

export function writableFrom([cell]: readonly Cell[]): Writable {
  const found = Number(cell?.toString('latin1') ?? 0)
  return {
    insert: (found & bits.insert) !== 0,
    update: (found & bits.update) !== 0,
    delete: (found & bits.delete) !== 0,
  }
}

/** Fails when the schema has changed since this catalogue was read. */
export const unchangedSql = (catalog: Catalog): { sql: string; writer: Writer } => ({
  sql: `select where ${isCurrentSql(catalog)}`,
  writer: new Writer(undefined),
})
