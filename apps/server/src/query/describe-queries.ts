// The statements that read a description. They run in a session of the owner, in one snapshot, with `pg_catalog` as the
// search path, so that Postgres qualifies every name.
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import type { CompositeType, EnumType, Routine, TypeInfo } from './description.ts'

export interface RelationFacts {
  oid: number
  schema: string
  name: string
  kind: 'r' | 'p' | 'f' | 'v' | 'm'
  comment: string | null
  type: number
  /** Bits of pg_relation_is_updatable. */
  updatable: number
  anonMayDelete: boolean
  anonMayUse: boolean
}

export interface ColumnFacts {
  relation: number
  number: number
  name: string
  type: number
  sqlType: string
  isNotNull: boolean
  default: string | null
  identity: '' | 'a' | 'd'
  isGenerated: boolean
  isSerial: boolean
  isUpdatable: boolean
  comment: string | null
  anon: { select: boolean; insert: boolean; update: boolean }
}

export interface KeyFacts {
  relation: number
  name: string
  isPrimary: boolean
  columns: number[]
}

export interface ForeignKeyFacts {
  name: string
  relation: number
  columns: number[]
  target: number
  targetColumns: number[]
  onUpdate: string
  onDelete: string
}

const one = async <T>(session: Session, statement: Parameters<Session['rows']>[0]): Promise<T[]> =>
  (await session.rows<{ fact: T }>(statement)).map(({ fact }) => fact)

export const fixSearchPath = (session: Session) =>
  session.run(sql`select pg_catalog.set_config('search_path', 'pg_catalog', true)`)

export async function findSchemas(session: Session, names: readonly string[]): Promise<string[]> {
  const rows = await session.rows<{ name: string }>(
    sql`select nspname as name from pg_namespace where nspname = any(${[...names]}::text[])`,
  )
  return rows.map(({ name }) => name)
}

export const findRelations = (session: Session, schemas: readonly string[]) =>
  one<RelationFacts>(
    session,
    sql`
    select json_build_object('oid', c.oid::int8, 'schema', n.nspname, 'name', c.relname, 'kind', c.relkind, 'type', c.reltype::int8,
             'comment', obj_description(c.oid, 'pg_class'), 'updatable', pg_relation_is_updatable(c.oid, true),
             'anonMayDelete', has_table_privilege('anon', c.oid, 'DELETE'),
             'anonMayUse', has_schema_privilege('anon', n.oid, 'USAGE')) as fact
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where c.relkind in ('r', 'p', 'f', 'v', 'm') and not c.relispartition and n.nspname = any(${[...schemas]}::text[])
       and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')
     order by n.nspname collate "C", c.relname collate "C"`,
  )

/** Also of tables in other schemas, which views and foreign keys refer to. */
export const findColumns = (session: Session, relations: readonly number[]) =>
  one<ColumnFacts>(
    session,
    sql`
    select json_build_object('relation', a.attrelid::int8, 'number', a.attnum, 'name', a.attname, 'type', a.atttypid::int8,
             'sqlType', format_type(a.atttypid, a.atttypmod), 'isNotNull', a.attnotnull or t.typnotnull,
             'default', pg_get_expr(d.adbin, d.adrelid), 'identity', a.attidentity, 'isGenerated', a.attgenerated <> '',
             'isSerial', a.attidentity = '' and pg_get_expr(d.adbin, d.adrelid) like 'nextval(%'
               and pg_get_serial_sequence(format('%I.%I', n.nspname, c.relname), a.attname) is not null,
             'isUpdatable', pg_column_is_updatable(a.attrelid, a.attnum, true), 'comment', col_description(a.attrelid, a.attnum),
             'anon', json_build_object('select', has_column_privilege('anon', a.attrelid, a.attnum, 'SELECT'),
                                       'insert', has_column_privilege('anon', a.attrelid, a.attnum, 'INSERT'),
                                       'update', has_column_privilege('anon', a.attrelid, a.attnum, 'UPDATE'))) as fact
      from pg_attribute a join pg_type t on t.oid = a.atttypid join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
      left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
     where a.attrelid = any(${[...relations]}::oid[]) and a.attnum > 0 and not a.attisdropped
     order by a.attrelid, a.attnum`,
  )

export const findKeys = (session: Session) =>
  one<KeyFacts>(
    session,
    sql`
    select json_build_object('relation', i.indrelid::int8, 'name', c.relname, 'isPrimary', i.indisprimary, 'columns', i.indkey::int2[]) as fact
      from pg_index i join pg_class c on c.oid = i.indexrelid join pg_namespace n on n.oid = c.relnamespace
     where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null and n.nspname not in ('pg_catalog', 'pg_toast', 'platform')
     order by c.relname collate "C"`,
  )

export const findForeignKeys = (session: Session) =>
  one<ForeignKeyFacts>(
    session,
    sql`
    select json_build_object('name', k.conname, 'relation', k.conrelid::int8, 'columns', k.conkey, 'target', k.confrelid::int8,
             'targetColumns', k.confkey, 'onUpdate', k.confupdtype, 'onDelete', k.confdeltype) as fact
      from pg_constraint k where k.contype = 'f' and k.conparentid = 0 order by k.conname collate "C", k.oid`,
  )

export const findViewRules = (session: Session) =>
  one<{ view: number; rule: string }>(
    session,
    sql`
    select json_build_object('view', r.ev_class::int8, 'rule', r.ev_action::text) as fact
      from pg_rewrite r join pg_class c on c.oid = r.ev_class join pg_namespace n on n.oid = c.relnamespace
     where r.rulename = '_RETURN' and c.relkind in ('v', 'm') and n.nspname not in ('pg_catalog', 'information_schema', 'platform')
       and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')`,
  )

export const findRoutines = (session: Session, schemas: readonly string[]) =>
  one<Routine>(
    session,
    sql`
    select json_build_object('schema', n.nspname, 'name', p.proname, 'returnType', p.prorettype::int8, 'returnsSet', p.proretset,
             'isOneRow', p.proretset and p.prorows = 1, 'isVolatile', p.provolatile = 'v', 'comment', obj_description(p.oid, 'pg_proc'),
             'anonMayCall', has_function_privilege('anon', p.oid, 'EXECUTE') and has_schema_privilege('anon', n.oid, 'USAGE'),
             'parameters', (
               select coalesce(json_agg(json_build_object('name', coalesce(p.proargnames[a.place], ''), 'type', a.type::int8,
                        'mode', case coalesce(p.proargmodes[a.place], 'i') when 'i' then 'in' when 'o' then 'out' when 'b' then 'inout'
                                when 'v' then 'variadic' else 'table' end,
                        'hasDefault', a.input is not null and a.input > p.pronargs - p.pronargdefaults) order by a.place), '[]')
                 from (select u.type, u.place,
                              case when coalesce(p.proargmodes[u.place], 'i') in ('i', 'b', 'v') then
                                count(*) filter (where coalesce(p.proargmodes[u.place], 'i') in ('i', 'b', 'v')) over (order by u.place) end as input
                         from unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality u(type, place)) a)) as fact
      from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where p.prokind = 'f' and n.nspname = any(${[...schemas]}::text[])
       and p.prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
       and not exists (select from pg_depend e where e.classid = 'pg_proc'::regclass and e.objid = p.oid and e.deptype in ('e', 'i'))
     order by n.nspname collate "C", p.proname collate "C", pg_get_function_identity_arguments(p.oid) collate "C"`,
  )

export const findTypes = (session: Session) =>
  one<TypeInfo & { oid: number }>(
    session,
    sql`
    select json_build_object('oid', t.oid::int8, 'schema', n.nspname, 'name', t.typname,
             'kind', case when t.typcategory = 'A' and t.typelem <> 0 then 'array' when t.typtype = 'e' then 'enum' when t.typtype = 'd' then 'domain'
                          when t.typtype = 'c' then 'composite' when t.typtype in ('r', 'm') then 'range' when t.typtype = 'p' then 'pseudo' else 'base' end,
             'of', case when t.typtype = 'd' then t.typbasetype else t.typelem end::int8, 'relation', t.typrelid::int8,
             'labels', case when t.typtype = 'e' then (select coalesce(json_agg(v.enumlabel order by v.enumsortorder), '[]') from pg_enum v where v.enumtypid = t.oid) else '[]' end,
             'castsToJson', t.oid >= 16384 and exists (select from pg_cast k where k.castsource = t.oid and k.casttarget = 'json'::regtype and k.castfunc <> 0)) as fact
      from pg_type t join pg_namespace n on n.oid = t.typnamespace`,
  )

export const findEnums = (session: Session, schemas: readonly string[]) =>
  one<EnumType>(
    session,
    sql`
    select json_build_object('schema', n.nspname, 'name', t.typname,
             'labels', (select coalesce(json_agg(v.enumlabel order by v.enumsortorder), '[]') from pg_enum v where v.enumtypid = t.oid)) as fact
      from pg_type t join pg_namespace n on n.oid = t.typnamespace
     where t.typtype = 'e' and n.nspname = any(${[...schemas]}::text[])
       and not exists (select from pg_depend e where e.classid = 'pg_type'::regclass and e.objid = t.oid and e.deptype = 'e')
     order by n.nspname collate "C", t.typname collate "C"`,
  )

export const findComposites = (session: Session, schemas: readonly string[]) =>
  one<CompositeType>(
    session,
    sql`
    select json_build_object('schema', n.nspname, 'name', t.typname, 'attributes', (
             select coalesce(json_agg(json_build_object('name', a.attname, 'type', a.atttypid::int8) order by a.attnum), '[]')
               from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped)) as fact
      from pg_type t join pg_namespace n on n.oid = t.typnamespace join pg_class c on c.oid = t.typrelid
     where t.typtype = 'c' and c.relkind = 'c' and n.nspname = any(${[...schemas]}::text[])
       and not exists (select from pg_depend e where e.classid = 'pg_type'::regclass and e.objid = t.oid and e.deptype = 'e')
     order by n.nspname collate "C", t.typname collate "C"`,
  )
