// Dumps the rows of a project's tables as INSERT statements, parents before children, then the sequence values.
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { inDependencyOrder } from './dependency-order.ts'

const maxBytes = 50 * 1024 * 1024
const rowsAtOnce = 500

interface OwnTable {
  id: string
  /** Qualified and quoted, like the columns. */
  name: string
  columns: string[]
  /** The table has identity columns, whose values are inserted explicitly. */
  overrides: boolean
}

/** Returns chunks. Must run in a repeatable-read transaction. */
export async function dataScript(session: Session): Promise<string[]> {
  // With row_security off, rows that a policy hides from the owner cause an error instead of being omitted silently.
  await session.script(`set local search_path = pg_catalog; set local row_security = off`)
  const tables = await session.rows<OwnTable>(ownTables)
  const needs = await session.rows<{ from: string; to: string }>(references)
  const byId = new Map(tables.map(table => [table.id, table]))
  const definitions = tables.map(({ id, name }) => ({ id, rank: 0, name, sql: '', undo: '' }))
  const script: string[] = []
  let length = 0
  for (const { id } of await inSlices(inDependencyOrder(definitions, needs)))
    for await (const statement of inserts(session, byId.get(id)!)) {
      script.push(statement)
      length += statement.length
      if (length > maxBytes) throw tooLarge()
    }
  for (const { sql: statement } of await session.rows<{ sql: string }>(sequences))
    script.push(`${statement};\n`)
  return script
}

async function* inserts(session: Session, table: OwnTable): AsyncGenerator<string> {
  const { name, columns, overrides } = table
  const row = columns.map(each => `quote_nullable(${each}::text)`).join(` || ', ' || `)
  const head =
    columns.length === 0
      ? `insert into ${name} default values;\n`
      : `insert into ${name} (${columns.join(', ')})${overrides ? ' overriding system value' : ''} values\n`
  await session.script(
    `declare rows_to_write no scroll cursor for select ${row || 'null'} as row from only ${name}`,
  )
  for (;;) {
    const rows = await session.rows<{ row: string }>(raw(`fetch ${rowsAtOnce} from rows_to_write`))
    if (rows.length === 0) break
    yield columns.length === 0
      ? head.repeat(rows.length)
      : `${head}${rows.map(each => `  (${each.row})`).join(',\n')};\n\n`
  }
  await session.script('close rows_to_write')
}

const place = sql`
  select n.oid, n.nspname from pg_namespace n
   where n.nspowner = (select r.oid from pg_roles r where r.rolname = current_user)
     and n.nspname <> 'supabase_migrations' and n.nspname !~ '^pg_'`

const ownTables = sql`
  with place as (${place})
  select 'pg_class:' || c.oid as id, format('%I.%I', p.nspname, c.relname) as name,
         array(select quote_ident(a.attname) from pg_attribute a
                where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = '' order by a.attnum) as columns,
         exists (select from pg_attribute a where a.attrelid = c.oid and a.attidentity = 'a' and not a.attisdropped) as overrides
    from pg_class c join place p on p.oid = c.relnamespace
   where c.relkind = 'r'
     and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')`

const references = sql`
  select 'pg_class:' || conrelid as "from", 'pg_class:' || confrelid as "to"
    from pg_constraint where contype = 'f' and conrelid <> confrelid`

const sequences = sql`
  with place as (${place})
  select format('select pg_catalog.setval(%L, %s, true)', format('%I.%I', s.schemaname, s.sequencename), s.last_value) as sql
    from pg_sequences s join place p on p.nspname = s.schemaname where s.last_value is not null order by 1`

const tooLarge = () =>
  new Refusal(
    'dump_too_large',
    `The rows take more than ${maxBytes / 1024 / 1024} MB as SQL; read them with pg_dump over the direct connection`,
  )
