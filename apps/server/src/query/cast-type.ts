// The type of a cast as it goes into SQL: names the grammar of SQL itself knows, anything else quoted.
import { unreadable } from './reader.ts'

/** Types that are words of the grammar, and would be taken for a name of somebody's own between quotes. */
const spelled = new Map([
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
  // The one name that Postgres itself trips over.
  if (name.toLowerCase() === 'unknown')
    throw unreadable('select parameter', name, 'nothing can be cast to "unknown"')
  return spelled.get(name.toLowerCase().replace(/ +/g, ' ')) ?? `"${name}"`
}
