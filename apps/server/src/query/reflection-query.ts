// One statement that reads what the catalogue lacks for an interface which shows each role its own schema: privileges,
// comments with directives, enums and types. Like `catalogQuery`, it returns a row with a small JSON text for each fact.

/** Longer comments count as if they had no directive. */
const maxCommentLength = 20_000

const commentSql = (description: string): string =>
  `case when ${description} ~ '@graphql\\(' and pg_catalog.length(${description}) <= ${maxCommentLength} then ${description} end`

const roles = ['anon', 'authenticated', 'service_role'] as const

const forRoles = (sql: (role: string) => string): string =>
  `pg_catalog.json_build_array(${roles.map(role => sql(`'${role}'`)).join(', ')})`

/** True for every column of a relation, or the names of those that the role may use. */
const columnsSql = (privilege: string) => (role: string) =>
  `case
  when pg_catalog.has_table_privilege(${role}, r.oid, '${privilege}') then 'true'::json
  else (select coalesce(pg_catalog.json_agg(a.attname), '[]') from pg_catalog.pg_attribute a
         where a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
           and pg_catalog.has_column_privilege(${role}, r.oid, a.attnum, '${privilege}')) end`

/** $1 is an array with the names of the exposed schemas. */
export const reflectionQuery = `
with exposed as (
  select n.oid, n.nspname from pg_catalog.pg_namespace n where n.nspname = any($1::text[])
),
relation as (
  select c.oid from pg_catalog.pg_class c join exposed e on e.oid = c.relnamespace
   where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
),
routine as (
  select p.oid, p.proallargtypes, p.proargtypes, p.prorettype
    from pg_catalog.pg_proc p join exposed e on e.oid = p.pronamespace where p.prokind = 'f'
),
used_type as (
  select a.atttypid as oid from pg_catalog.pg_attribute a
   where a.attrelid in (select oid from relation) and a.attnum > 0 and not a.attisdropped
  union
  select x.oid from routine r,
    lateral pg_catalog.unnest(coalesce(r.proallargtypes, r.proargtypes::oid[]) || r.prorettype) x(oid)
),
fact(place, kind, value) as (
  select 1, 'version', pg_catalog.to_json(pg_catalog.max(version)) from platform.catalog_version
  union all
  select 2, 'schema', pg_catalog.json_build_array(e.nspname,
      ${commentSql(`pg_catalog.obj_description(e.oid, 'pg_namespace')`)},
      ${forRoles(role => `pg_catalog.has_schema_privilege(${role}, e.oid, 'USAGE')`)})
    from exposed e
  union all
  select 3, 'relation', pg_catalog.json_build_array(r.oid::int8,
      ${commentSql(`pg_catalog.obj_description(r.oid, 'pg_class')`)},
      ${forRoles(columnsSql('SELECT'))}, ${forRoles(columnsSql('INSERT'))}, ${forRoles(columnsSql('UPDATE'))},
      ${forRoles(role => `pg_catalog.has_table_privilege(${role}, r.oid, 'DELETE')`)})
    from relation r
  union all
  select 4, 'columns', pg_catalog.json_build_array(a.attrelid::int8, pg_catalog.json_agg(pg_catalog.json_build_array(
      a.attname, a.atttypid::int8, a.attnotnull,
      a.attgenerated <> '' or a.attidentity <> '' or exists (
        select from pg_catalog.pg_depend d join pg_catalog.pg_class s on s.oid = d.objid and s.relkind = 'S'
         where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid = a.attrelid
           and d.refobjsubid = a.attnum and d.deptype in ('a', 'i')),
      ${commentSql('pg_catalog.col_description(a.attrelid, a.attnum)')}) order by a.attnum))
    from pg_catalog.pg_attribute a
   where a.attrelid in (select oid from relation) and a.attnum > 0 and not a.attisdropped
   group by a.attrelid
  union all
  select 5, 'function', pg_catalog.json_build_array(r.oid::int8,
      ${commentSql(`pg_catalog.obj_description(r.oid, 'pg_proc')`)},
      ${forRoles(role => `pg_catalog.has_function_privilege(${role}, r.oid, 'EXECUTE')`)}, r.prorettype::int8)
    from routine r
  union all
  select 6, 'constraint', pg_catalog.json_build_array(k.conrelid::int8, k.conname, c.description)
    from pg_catalog.pg_constraint k
    join pg_catalog.pg_description c on c.objoid = k.oid and c.classoid = 'pg_catalog.pg_constraint'::pg_catalog.regclass
   where k.contype = 'f' and ${commentSql('c.description')} is not null
  union all
  select 7, 'type', pg_catalog.json_build_array(t.oid::int8, t.typname, t.typtype, t.typbasetype::int8, t.typelem::int8,
      t.typcategory)
    from pg_catalog.pg_type t
   where t.oid in (select oid from used_type)
      or t.oid in (select b.typelem from pg_catalog.pg_type b where b.oid in (select oid from used_type))
      or exists (select from pg_catalog.pg_type d where d.typtype = 'd' and d.typbasetype = t.oid)
  union all
  select 8, 'enum', pg_catalog.json_build_array(t.oid::int8, t.typname,
      ${commentSql(`pg_catalog.obj_description(t.oid, 'pg_type')`)},
      (select pg_catalog.json_agg(e.enumlabel order by e.enumsortorder) from pg_catalog.pg_enum e where e.enumtypid = t.oid))
    from pg_catalog.pg_type t where t.typtype = 'e'
)
select kind, value from fact order by place`

/** Per role: anon, authenticated, service_role. */
type ByRole<T> = readonly [T, T, T]
/** True means all columns. */
type ColumnNames = true | readonly string[]

export type ReflectionFact =
  | ['version', number]
  | ['schema', [name: string, comment: string | null, isUsable: ByRole<boolean>]]
  | [
      'relation',
      [
        oid: number,
        comment: string | null,
        select: ByRole<ColumnNames>,
        insert: ByRole<ColumnNames>,
        update: ByRole<ColumnNames>,
        isDeletable: ByRole<boolean>,
      ],
    ]
  | [
      'columns',
      [
        relation: number,
        columns: [
          name: string,
          type: number,
          isNotNull: boolean,
          isGenerated: boolean,
          comment: string | null,
        ][],
      ],
    ]
  | ['function', [oid: number, comment: string | null, isCallable: ByRole<boolean>, returns: number]]
  | ['constraint', [relation: number, name: string, comment: string]]
  | ['type', [oid: number, name: string, kind: string, base: number, element: number, category: string]]
  | ['enum', [oid: number, name: string, comment: string | null, labels: string[] | null]]
