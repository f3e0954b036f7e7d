// The type of a cast as SQL: keywords of the SQL grammar as they are, any other name quoted.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { QueryError } from './problem.ts'

/** Types that are keywords of SQL. Quoted, they would be names of user-defined types. */
const keywords = new Map([
  ['int', 'integer'],
  ['integer', 'integer'],
  ['smallint', 'smallint'],
  ['bigint', 'bigint'],
  ['real', 'real'],
  ['float', 'double precision'],
  ['double precision', 'double precision'],
  ['decimal', 'numeric'],
  ['dec', 'numeric'],
  ['numeric', 'numeric'],
  ['boolean', 'boolean'],
  ['char', 'character'],
  ['character', 'character'],
  ['varchar', 'character varying'],
  ['character varying', 'character varying'],
  ['bit', 'bit'],
  ['bit varying', 'bit varying'],
  ['time', 'time'],
  ['time without time zone', 'time'],
  ['time with time zone', 'time with time zone'],
  ['timestamp', 'timestamp'],
  ['timestamp without time zone', 'timestamp'],
  ['timestamp with time zone', 'timestamp with time zone'],
  ['interval', 'interval'],
])

export function castType(name: string): string {
  // Postgres fails with an internal error on a cast to this type.
  if (name.toLowerCase() === 'unknown') throw new QueryError({ kind: 'impossible cast', type: name })
  return keywords.get(name.toLowerCase().replace(/ +/g, ' ')) ?? identifier(name)
}
