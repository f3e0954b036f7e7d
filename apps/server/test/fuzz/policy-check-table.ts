// The table whose changes are checked. It has a column of every type that JSON conversion could alter, with edge-case
// values.
import type { Random } from './random.ts'

export interface Column {
  name: string
  type: string
  /** SQL literals, including `null`. */
  values: readonly string[]
}

export const users = [1, 2, 3, 4].map(n => `00000000-0000-4000-8000-00000000000${n}`)
export const teams = [0, 1, 2, 3, 4, 5]

/** User ids in rows and in claims. */
export const oddText = 'é"\\\n{},() NULL'

const typed = (type: string, ...texts: string[]) => [
  ...texts.map(text => `'${text.replaceAll("'", "''")}'::${type}`),
  'null',
]

export const columns: readonly Column[] = [
  { name: 'n', type: 'int', values: [...teams.map(String), '13', '-1', 'null'] },
  { name: 'word', type: 'text', values: typed('text', 'a', 'b', '', '5', oddText, 'user1@example.com') },
  { name: 'who', type: 'uuid', values: typed('uuid', ...users) },
  { name: 'flag', type: 'boolean', values: ['true', 'false', 'null'] },
  {
    name: 'at',
    type: 'timestamptz',
    values: typed(
      'timestamptz',
      '2024-01-01 00:00+00',
      '2024-06-01 12:00:00.123456+02',
      'infinity',
      '-infinity',
    ),
  },
  {
    name: 'doc',
    type: 'jsonb',
    values: typed('jsonb', '{"k":"a"}', '{"k":1,"list":[1,2]}', 'null', '"a"', '[]', '{"k":null}', '5'),
  },
  { name: 'tags', type: 'text[]', values: typed('text[]', '{}', '{a}', '{a,b}', '{NULL,a}', '{"wi\\"th"}') },
  {
    name: 'nums',
    type: 'int[]',
    values: typed('int[]', '{}', '{1,2}', '{NULL}', '{{1,2},{3,4}}', '[0:1]={1,2}'),
  },
  { name: 'price', type: 'numeric(8,2)', values: typed('numeric', '1.50', '0', '-2.25', 'NaN') },
  { name: 'ratio', type: 'float8', values: typed('float8', '1.5', '0.1', '1e-7', 'NaN', 'Infinity', '-0') },
  { name: 'padded', type: 'char(4)', values: typed('char(4)', 'ab', '', 'abcd') },
  { name: 'day', type: 'date', values: typed('date', '2024-02-29', 'infinity', '0044-03-15 BC') },
  { name: 'span', type: 'interval', values: typed('interval', '1 day', '-1 day 02:00', '1 year -3 days') },
  { name: 'bytes', type: 'bytea', values: typed('bytea', '\\x00ff', '\\x', 'a\\\\b') },
  { name: 'mood', type: 'mood', values: typed('mood', 'good', 'so so') },
  { name: 'short', type: 'short_text', values: typed('short_text', 'a', '') },
  { name: 'spot', type: 'spot', values: typed('spot', '(1,a)', '(,)', '(2,"x,y")') },
  { name: 'during', type: 'int4range', values: typed('int4range', '[1,3)', 'empty', '(,5]') },
  { name: 'Odd "one"', type: 'text', values: typed('text', 'a', 'b') },
]

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`
export const quote = quoted

/** One name needs quoting. */
export const tableNames = ['checked', 'Odd "table"'] as const
export type TableName = (typeof tableNames)[number]

/** Run as the project's owner. */
export const tableScript = `
  create type mood as enum ('good', 'so so', 'bad');
  create domain short_text as text check (length(value) < 3);
  create type spot as (x int, label text);
  create table members (team int, person uuid, level int);
  alter table members enable row level security;
  ${tableNames
    .map(
      name => `
  create table ${quoted(name)} (
    id int primary key, gone int,
    ${columns.map(column => `${quoted(column.name)} ${column.type}`).join(', ')},
    twice int generated always as (n * 2) stored);
  alter table ${quoted(name)} drop column gone;
  alter table ${quoted(name)} enable row level security;`,
    )
    .join('')}
  create function is_member(wanted int) returns boolean language sql stable security definer set search_path = public
    as $$ select exists (select from members where team = wanted and person = auth.uid()) $$;
  create function likes(who uuid, mood text) returns boolean language plpgsql
    as $$ begin if mood = 'bad' then raise 'in a bad mood'; end if; return who = auth.uid(); end $$;
  create function tolerates(n int) returns boolean language plpgsql stable
    as $$ begin if n = 13 then raise 'thirteen' using errcode = 'P0013'; end if; return n > 1; end $$;
  create function is_fine(one checked) returns boolean language sql stable
    as $$ select one.flag or one.who = auth.uid() $$;
`

export interface Row {
  id: number
  /** SQL literals by column name. */
  values: Readonly<Record<string, string>>
}

export function randomRow(random: Random, id: number): Row {
  const values: Record<string, string> = {}
  for (const { name, values: possible } of columns)
    if (random.chance(0.8)) values[name] = random.pick(possible)
  return { id, values }
}

export function insertOf(table: string, rows: readonly Row[]): string {
  const names = columns.map(({ name }) => name)
  const lines = rows.map(
    ({ id, values }) => `(${[id, ...names.map(name => values[name] ?? 'null')].join(', ')})`,
  )
  return `insert into ${quoted(table)} (id, ${names.map(quoted).join(', ')}) values ${lines.join(', ')}`
}
