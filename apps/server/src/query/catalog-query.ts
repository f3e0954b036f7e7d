// One statement that reads all facts of the catalogue. It returns a row with a small JSON text for each fact: parsing
// one text for thousands of tables would block the event loop.

/** Longer definitions of views are not read. Such a view has no relationships. */
const maxViewLength = 500_000

/** A domain over a longer chain of domains has no known base type. */
const maxDomainDepth = 32

/** $1 is an array with the names of the exposed schemas. */
export const catalogQuery = `
with recursive exposed as (
  select n.oid, n.nspname from pg_catalog.pg_namespace n where n.nspname = any($1::text[])
),
domain(oid, base, depth) as (
  select t.oid, t.typbasetype, 1 from pg_catalog.pg_type t where t.typtype = 'd'
  union all
  select d.oid, t.typbasetype, d.depth + 1 from domain d join pg_catalog.pg_type t on t.oid = d.base
   where t.typtype = 'd' and d.depth < ${maxDomainDepth}
),
base_type(oid, base) as (
  select d.oid, d.base from domain d join pg_catalog.pg_type t on t.oid = d.base where t.typtype <> 'd'
),
relation as (
  select c.oid, e.nspname, c.relname, c.relkind, c.reltype
    from pg_catalog.pg_class c join exposed e on e.oid = c.relnamespace
   where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
),
routine as (
  select p.*, e.nspname
    from pg_catalog.pg_proc p join exposed e on e.oid = p.pronamespace
   where p.prokind = 'f'
     and p.prorettype not in ('pg_catalog.trigger'::pg_catalog.regtype, 'pg_catalog.event_trigger'::pg_catalog.regtype)
),
row_type as (
  select distinct t.typrelid as oid
    from routine r left join base_type b on b.oid = r.prorettype
    join pg_catalog.pg_type t on t.oid = coalesce(b.base, r.prorettype)
   where t.typrelid <> 0 and t.typrelid not in (select oid from relation)
),
fact(place, n, kind, value) as (
  select 1, 1, 'version', pg_catalog.to_json(pg_catalog.max(version)) from platform.catalog_version
  union all
  select 2, 1, 'relation', pg_catalog.json_build_object(
      'oid', oid::int8, 'schema', nspname, 'name', relname, 'kind', relkind, 'type', reltype::int8)
    from relation
  union all
  select 3, 1, 'columns', pg_catalog.json_agg(pg_catalog.json_build_array(
      a.attrelid::int8, a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
      coalesce(b.base, t.oid)::int8, t.typcategory = 'A',
      case when a.attidentity = 'd' then
             'pg_catalog.nextval(' || pg_catalog.quote_literal(pg_catalog.pg_get_serial_sequence(
               pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname), a.attname)) || ')'
           when a.attgenerated = '' then
             coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), pg_catalog.pg_get_expr(t.typdefaultbin, 0)) end, t.oid::int8
    ) order by a.attnum)
    from pg_catalog.pg_attribute a
    join pg_catalog.pg_type t on t.oid = a.atttypid
    left join base_type b on b.oid = t.oid
    join pg_catalog.pg_class c on c.oid = a.attrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
   where a.attnum > 0 and not a.attisdropped
     and a.attrelid in (select oid from relation union all select oid from row_type)
   group by a.attrelid
  union all
  select 4, 1, 'key', pg_catalog.json_build_array(i.indrelid::int8, i.indisprimary, i.indkey::int2[])
    from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where i.indisunique and i.indisvalid and i.indpred is null and i.indexprs is null
     and n.nspname not in ('pg_catalog', 'pg_toast', 'information_schema', 'platform')
  union all
  select 5, pg_catalog.row_number() over (order by k.conname, k.oid), 'foreignKey', pg_catalog.json_build_array(
      k.conname, k.conrelid::int8, k.conkey, k.confrelid::int8, k.confkey)
    from pg_catalog.pg_constraint k where k.contype = 'f' and k.conparentid = 0
  union all
  select 6, 1, 'view', pg_catalog.json_build_array(r.ev_class::int8,
      case when pg_catalog.length(r.ev_action::text) <= ${maxViewLength} then r.ev_action::text else '' end)
    from pg_catalog.pg_rewrite r join pg_catalog.pg_class c on c.oid = r.ev_class
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
   where r.rulename = '_RETURN' and c.relkind in ('v', 'm')
     and n.nspname not in ('pg_catalog', 'information_schema', 'platform')
     and not exists (select from pg_catalog.pg_depend d where d.objid = c.oid and d.deptype = 'e')
  union all
  select 7, pg_catalog.row_number() over (order by r.proname, r.oid), 'function', pg_catalog.json_build_object(
      'oid', r.oid::int8, 'schema', r.nspname, 'name', r.proname,
      'argNames', r.proargnames, 'argModes', r.proargmodes::text[],
      'argTypes', (select pg_catalog.array_agg(pg_catalog.format_type(a.type, -1) order by a.n)
                     from pg_catalog.unnest(coalesce(r.proallargtypes, r.proargtypes::oid[])) with ordinality a(type, n)),
      'argOids', coalesce(r.proallargtypes, r.proargtypes::oid[])::int8[],
      'defaults', r.pronargdefaults, 'isVariadic', r.provariadic <> 0,
      'returns', pg_catalog.format_type(r.prorettype, null), 'returnKind', t.typtype, 'returnRelation', t.typrelid::int8,
      'mediaType', case when own.typtype = 'd' and own.typname ~ '/' then own.typname end,
      'isBinary', t.oid = 'pg_catalog.bytea'::pg_catalog.regtype,
      'isSet', r.proretset, 'isOneRow', r.prorows = 1 and r.proretset, 'volatility', r.provolatile)
    from routine r join pg_catalog.pg_type own on own.oid = r.prorettype left join base_type b on b.oid = r.prorettype
    join pg_catalog.pg_type t on t.oid = coalesce(b.base, r.prorettype)
  union all
  select 8, 1, 'extension', pg_catalog.json_build_array(x.extname, n.nspname)
    from pg_catalog.pg_extension x join pg_catalog.pg_namespace n on n.oid = x.extnamespace
   where x.extname in ('vector', 'postgis')
  union all
  select 9, pg_catalog.row_number() over (order by p.proname, p.oid), 'handler', pg_catalog.json_build_object(
      'schema', n.nspname, 'name', p.proname, 'mediaType', t.typname, 'relation', a.typrelid::int8,
      'isBinary', b.base = 'pg_catalog.bytea'::pg_catalog.regtype)
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    join pg_catalog.pg_type t on t.oid = p.prorettype join base_type b on b.oid = t.oid
    join pg_catalog.pg_type a on a.oid = p.proargtypes[0]
   where p.prokind = 'a' and p.pronargs = 1 and t.typname ~ '/'
     and (n.oid in (select oid from exposed) or n.nspname = 'extensions')
     and (a.oid = 'pg_catalog.anyelement'::pg_catalog.regtype or a.typrelid in (select oid from relation))
  union all
  select 10, 1, 'representation', pg_catalog.json_build_array(
      case when s.typtype = 'd' then s.oid else d.oid end::int8,
      case when s.typtype = 'd' then 'to' else 'from' end,
      case when s.typtype = 'd' then d.typname else s.typname end, n.nspname, p.proname)
    from pg_catalog.pg_cast c join pg_catalog.pg_type s on s.oid = c.castsource
    join pg_catalog.pg_type d on d.oid = c.casttarget
    join pg_catalog.pg_proc p on p.oid = c.castfunc join pg_catalog.pg_namespace n on n.oid = p.pronamespace
   where c.castcontext = 'i' and c.castmethod = 'f'
     and (s.typtype = 'd' and d.oid in ('pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.text'::pg_catalog.regtype)
       or d.typtype = 'd' and s.oid in ('pg_catalog.json'::pg_catalog.regtype, 'pg_catalog.text'::pg_catalog.regtype))
)
select kind, value from fact order by place, n`

/** The rows of `catalogQuery`, by kind of fact. */
export interface CatalogFacts {
  version: number
  relations: { oid: number; schema: string; name: string; kind: string; type: number }[]
  /** By the oid of the relation. */
  columns: Map<number, ColumnFacts[]>
  keys: [relation: number, isPrimary: boolean, columns: number[]][]
  foreignKeys: [name: string, relation: number, columns: number[], target: number, targetColumns: number[]][]
  views: [oid: number, evAction: string][]
  functions: RoutineFacts[]
  extensions: Map<string, string>
  handlers: HandlerFacts[]
  representations: [
    domain: number,
    direction: 'to' | 'from',
    format: 'json' | 'text',
    schema: string,
    name: string,
  ][]
}

export type ColumnFacts = [
  relation: number,
  position: number,
  name: string,
  type: string,
  base: number,
  isArray: boolean,
  byDefault: string | null,
  typeOid: number,
]

export interface RoutineFacts {
  oid: number
  schema: string
  name: string
  argNames: string[] | null
  argModes: string[] | null
  argTypes: string[] | null
  argOids: number[] | null
  defaults: number
  isVariadic: boolean
  returns: string
  /** Kind of the returned type, or of a domain's base type. */
  returnKind: string
  returnRelation: number
  /** The name of the returned domain, if it is one of a media type. */
  mediaType: string | null
  isBinary: boolean
  isSet: boolean
  isOneRow: boolean
  volatility: string
}

/** An aggregate over rows that returns a domain with the name of a media type. */
export interface HandlerFacts {
  schema: string
  name: string
  mediaType: string
  /** 0 for rows of any type. */
  relation: number
  isBinary: boolean
}
