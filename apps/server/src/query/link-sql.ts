// How a row finds the rows of an embedded relation, as SQL.
import { identifier } from '#src/kernel/postgres/sql.ts'
import type { Relationship } from './catalog.ts'
import type { Link } from './level.ts'
import { qualified, type Writer } from './writer.ts'

/** The rows `own` that belong to the row `alias`: the source of the rows, and the conditions that join them. */
export function linkSql(
  writer: Writer,
  link: Link,
  alias: string,
  own: string,
): { from: string; joined: string[] } {
  if (link.kind === 'function')
    return { from: `${qualified(link.routine)}(${writer.wholeRow(alias)}) ${own}`, joined: [] }
  const { target, junction } = link.relationship
  if (!junction) {
    const { columns } = link.relationship
    return { from: `${qualified(target)} ${own}`, joined: equalities(columns, alias, own) }
  }
  const through = writer.alias('j')
  const on = equalities(junction.columns, through, own)
  return {
    from: `${qualified(junction.relation)} ${through} join ${qualified(target)} ${own} on ${on.join(' and ')}`,
    joined: equalities(link.relationship.columns, alias, through),
  }
}

const equalities = (columns: Relationship['columns'], left: string, right: string): string[] =>
  columns.map(([own, theirs]) => `${right}.${identifier(theirs)} = ${left}.${identifier(own)}`)
