// Reads the catalogue of a project database as its owner. Names are compared as text: as type `name` Postgres would truncate
// a longer one to 63 bytes and find another table.
import type { Extension, Table } from '@plinth/contract/schema.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import type { Paging } from '#src/planes/management/paging.ts'

const isRelation = sql`c.relkind in ('r', 'p', 'v', 'm', 'f')`

const kind = sql`case c.relkind when 'r' then 'table' when 'p' then 'partitioned_table' when 'v' then 'view'
  when 'm' then 'materialized_view' else 'foreign_table' end`

const columns = sql`
  (select coalesce(json_agg(json_build_object(
       'name', a.attname,
       'type', format_type(a.atttypid, a.atttypmod),
       'nullable', not (a.attnotnull or (t.typtype = 'd' and t.typnotnull)),
       'default', case when a.attgenerated = '' then pg_get_expr(d.adbin, d.adrelid) end,
       'identity', case a.attidentity when 'a' then 'always' when 'd' then 'by_default' end,
       'generated', case when a.attgenerated <> '' then pg_get_expr(d.adbin, d.adrelid) end,
       'comment', col_description(c.oid, a.attnum)) order by a.attnum), '[]')
     from pg_catalog.pg_attribute a
     join pg_catalog.pg_type t on t.oid = a.atttypid
     left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped)`

const primaryKey = sql`
  (select coalesce(json_agg(a.attname order by k.place), '[]')
     from pg_catalog.pg_constraint p, unnest(p.conkey) with ordinality k(attnum, place), pg_catalog.pg_attribute a
    where p.conrelid = c.oid and p.contype = 'p' and a.attrelid = c.oid and a.attnum = k.attnum)`

const action = (column: 'confdeltype' | 'confupdtype') =>
  raw(`case f.${column} when 'a' then 'NO ACTION' when 'r' then 'RESTRICT' when 'c' then 'CASCADE'
    when 'n' then 'SET NULL' else 'SET DEFAULT' end`)

const foreignKeys = sql`
  (select coalesce(json_agg(json_build_object(
       'name', f.conname,
       'columns', (select json_agg(a.attname order by k.place)
                     from unnest(f.conkey) with ordinality k(attnum, place)
                     join pg_catalog.pg_attribute a on a.attrelid = f.conrelid and a.attnum = k.attnum),
       'referenced_schema', rn.nspname,
       'referenced_table', r.relname,
       'referenced_columns', (select json_agg(a.attname order by k.place)
                     from unnest(f.confkey) with ordinality k(attnum, place)
                     join pg_catalog.pg_attribute a on a.attrelid = f.confrelid and a.attnum = k.attnum),
       'on_delete', ${action('confdeltype')},
       'on_update', ${action('confupdtype')}) order by f.conname), '[]')
     from pg_catalog.pg_constraint f
     join pg_catalog.pg_class r on r.oid = f.confrelid
     join pg_catalog.pg_namespace rn on rn.oid = r.relnamespace
    where f.conrelid = c.oid and f.contype = 'f')`

const indexes = sql`
  (select coalesce(json_agg(json_build_object(
       'name', i.relname,
       'columns', (select json_agg(coalesce(a.attname, pg_get_indexdef(x.indexrelid, k, true)) order by k)
                     from generate_series(1, x.indnkeyatts) k
                     left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = x.indkey[k - 1] and a.attnum > 0),
       'unique', x.indisunique,
       'primary', x.indisprimary,
       'definition', pg_get_indexdef(x.indexrelid)) order by i.relname), '[]')
     from pg_catalog.pg_index x join pg_catalog.pg_class i on i.oid = x.indexrelid
    where x.indrelid = c.oid and x.indislive)`

const checks = sql`
  (select coalesce(json_agg(json_build_object(
       'name', k.conname, 'expression', pg_get_expr(k.conbin, k.conrelid)) order by k.conname), '[]')
     from pg_catalog.pg_constraint k where k.conrelid = c.oid and k.contype = 'c')`

const table = sql`
  n.nspname as schema, c.relname as name, ${kind} as kind, ${columns} as columns, ${primaryKey} as primary_key,
  ${foreignKeys} as foreign_keys, ${indexes} as indexes, ${checks} as checks, c.relrowsecurity as rls_enabled,
  case when c.reltuples >= 0 and c.relkind <> 'v' then c.reltuples::float8 end as row_estimate,
  obj_description(c.oid, 'pg_class') as comment`

const relationsOf = (schema: string) => sql`
  pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = ${schema}::text
   and ${isRelation}`

export async function listTables(
  session: Session,
  schema: string,
  { limit, offset }: Paging,
): Promise<{ tables: Table[]; total: number }> {
  const tables = await session.rows<Table>(
    sql`select ${table} from ${relationsOf(schema)} order by c.relname limit ${limit} offset ${offset}`,
  )
  const count = await session.row<{ total: number }>(
    sql`select count(*)::int as total from ${relationsOf(schema)}`,
  )
  return { tables, total: count?.total ?? 0 }
}

export const readTable = (session: Session, schema: string, name: string) =>
  session.row<Table>(sql`select ${table} from ${relationsOf(schema)} where c.relname = ${name}::text`)

export interface Relation {
  oid: number
  kind: Table['kind']
  rls_enabled: boolean
  rls_forced: boolean
}

export const findRelation = (session: Session, schema: string, name: string) =>
  session.row<Relation>(sql`
    select c.oid, ${kind} as kind, c.relrowsecurity as rls_enabled, c.relforcerowsecurity as rls_forced
      from ${relationsOf(schema)} where c.relname = ${name}::text`)

export const listSchemaNames = async (session: Session) =>
  (await session.rows<{ name: string }>(sql`select nspname as name from pg_catalog.pg_namespace`)).map(nameOf)

export const listTableNames = async (session: Session, schema: string) =>
  (
    await session.rows<{ name: string }>(sql`select c.relname as name from ${relationsOf(schema)} limit 2000`)
  ).map(nameOf)

export const listColumnNames = async (session: Session, relation: number) =>
  (
    await session.rows<{ name: string }>(sql`
      select attname as name from pg_catalog.pg_attribute
       where attrelid = ${relation} and attnum > 0 and not attisdropped order by attnum`)
  ).map(nameOf)

/** Whether the text is a type name and nothing else. An invalid name may raise 42601. */
export const isType = async (session: Session, text: string) =>
  (await session.row<{ is_type: boolean }>(sql`select to_regtype(${text}::text) is not null as is_type`))!
    .is_type

/** Type names for hints. */
export const listTypeNames = async (session: Session) =>
  (
    await session.rows<{ name: string }>(sql`
      select distinct unnest(array[typname::text, format_type(oid, null)]) as name from pg_catalog.pg_type
       where pg_type_is_visible(oid) and typtype in ('b', 'd', 'e', 'r', 'm') and typname not like '\\_%'`)
  ).map(nameOf)

/** Languages that the template disables, although Postgres trusts them. */
const refused = ['plperl', 'pltcl', 'bool_plperl', 'jsonb_plperl', 'hstore_plperl']

export async function listExtensions(
  session: Session,
  { limit, offset }: Paging,
): Promise<{ extensions: Extension[]; total: number }> {
  const found = await session.rows<Extension>(sql`
    select a.name, e.extversion as installed_version, a.default_version, n.nspname as schema, a.comment
      from pg_catalog.pg_available_extensions a
      left join pg_catalog.pg_extension e on e.extname = a.name
      left join pg_catalog.pg_namespace n on n.oid = e.extnamespace
     where e.oid is not null or (a.name <> all(${refused}::text[]) and exists (
             select from pg_catalog.pg_available_extension_versions v
              where v.name = a.name and v.version = a.default_version and (v.trusted or not v.superuser)))
     order by a.name`)
  // There are a few dozen at most.
  return { extensions: found.slice(offset, offset + limit), total: found.length }
}

const nameOf = ({ name }: { name: string }) => name
