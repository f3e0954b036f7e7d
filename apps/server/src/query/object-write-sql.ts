// Writes whose answer is a JSON object.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { atMostSql, isCurrentSql } from './answer-sql.ts'
import type { Catalog, Relation } from './catalog.ts'
import type { Change } from './items.ts'
import { sourceOf, type Where } from './level.ts'
import { constantSql, objectSql, rowObjectSql } from './object-sql.ts'
import type { Member, RowContent, WrittenContent } from './objects.ts'
import { planWrite } from './write-plan.ts'
import { changeSql, nameOutside } from './write-sql.ts'
import { qualified, Writer } from './writer.ts'

export interface ObjectWrite {
  /** The name of the object in the answer. */
  readonly name: string
  readonly change: Change
  readonly where: readonly Where[]
  /** The index of the maximum number of rows in the values. More rows fail the statement. */
  readonly atMost?: number
  readonly members: readonly Member<WrittenContent>[]
}

const target = 't0'

export function writeObjectsSql(
  catalog: Catalog,
  relation: Relation,
  { name, change, where, atMost, members }: ObjectWrite,
): { sql: string; writer: Writer } {
  const writer = new Writer(catalog.extension('vector'))
  writer.alias()
  const write = planWrite(relation, change)
  if (write.kind === 'nothing') throw new Error('a write of nothing has no statement')
  const wholeRow = nameOutside(relation.columns)
  const row = `(${target}.*)::${qualified(relation)} as ${identifier(wholeRow)}`
  const level = { source: sourceOf(relation), outputs: [], embeds: [], where, order: [] }
  const changed = `${changeSql(writer, relation, level, write)} returning ${returningSql(members, row)}`
  writer.rows.set(target, `${target}.${identifier(wholeRow)}`)
  const count = 'pg_catalog.count(*)'
  const object = objectSql(members, content => {
    switch (content.kind) {
      case 'constant':
        return constantSql(content)
      case 'count':
        return count
      case 'rows':
        return `coalesce(pg_catalog.json_agg(${rowObjectSql(writer, content.members, target)}), '[]')`
    }
  })
  const answer = objectSql([{ name, content: object }], each => each)
  const columns = [`(${answer})::text`]
  if (atMost !== undefined) columns.push(atMostSql(count, `${writer.parameter(atMost)}::bigint`))
  return {
    sql: `with changed as (${changed}) select ${columns.join(', ')} from changed ${target} where ${isCurrentSql(catalog)}`,
    writer,
  }
}

/** Returns only the columns that are shown: the caller may lack the privilege to read the others. */
function returningSql(members: readonly Member<WrittenContent>[], wholeRow: string): string {
  const names = new Set<string>()
  let needsRow = false
  const need = ({ content }: Member<RowContent>) => {
    switch (content.kind) {
      case 'constant':
        break
      case 'value':
        if (content.value.column) names.add(content.value.column.name)
        else needsRow = true
        break
      case 'node id':
        for (const column of content.key) names.add(column.name)
        break
      case 'row':
      case 'page':
        if (content.link.kind === 'function') needsRow = true
        else for (const [own] of content.link.relationship.columns) names.add(own)
    }
  }
  for (const { content } of members) if (content.kind === 'rows') content.members.forEach(need)
  const returned = [...names].map(name => `${target}.${identifier(name)}`)
  if (needsRow) returned.push(wholeRow)
  return returned.length > 0 ? returned.join(', ') : '1'
}
