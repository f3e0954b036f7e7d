// Reads which objects of the project depend on which. Run with search_path = pg_catalog.
import { raw, type SqlFragment } from '#src/kernel/postgres/sql.ts'
import { isInline } from './definitions-store.ts'

/** From one definition to another, or to an object that has none. */
export interface Dependency {
  from: string
  to: string
  /** The columns of `to` on which it depends, quoted where needed. */
  columns: string[]
}

/**
 * Dependencies of a part, such as a column, count for its object. Comments and the like are no objects of Postgres, but
 * depend on one.
 */
export const dependencies = (limit: number): SqlFragment =>
  raw(`
  with piece_of as (
    select 'pg_class'::regclass as classid, c.oid as objid, 'pg_type:' || c.reltype as id from pg_class c where c.relkind = 'c'
    union all select 'pg_class'::regclass, k.conindid, 'pg_constraint:' || k.oid from pg_constraint k where k.contype in ('p', 'u', 'x')
    union all select 'pg_type'::regclass, t.oid, 'pg_class:' || t.typrelid from pg_type t join pg_class c on c.oid = t.typrelid where c.relkind <> 'c'
    union all select 'pg_type'::regclass, t.typarray, case when t.typrelid <> 0 and c.relkind <> 'c' then 'pg_class:' || t.typrelid else 'pg_type:' || t.oid end
      from pg_type t left join pg_class c on c.oid = t.typrelid where t.typarray <> 0
    union all select 'pg_rewrite'::regclass, w.oid, 'pg_class:' || w.ev_class from pg_rewrite w where w.rulename = '_RETURN'
    union all select 'pg_constraint'::regclass, k.oid, 'pg_type:' || k.contypid from pg_constraint k where k.contypid <> 0
    union all select 'pg_type'::regclass, g.rngmultitypid, 'pg_type:' || g.rngtypid from pg_range g
    union all select 'pg_attrdef'::regclass, ad.oid, 'pg_class:' || ad.adrelid
      from pg_attrdef ad join pg_attribute a on a.attrelid = ad.adrelid and a.attnum = ad.adnum where ${isInline}
  ), edge (id, classid, objid, refclassid, refobjid, refobjsubid) as (
    select null, d.classid, d.objid, d.refclassid, d.refobjid, d.refobjsubid from pg_depend d
     where d.objid >= 16384 and d.refobjid >= 2200
       -- A sequence that belongs to a column is made before it; being owned comes later.
       and not exists (select from pg_class s where d.classid = 'pg_class'::regclass and s.oid = d.objid and s.relkind = 'S' and d.deptype in ('a', 'i') and d.refclassid = 'pg_class'::regclass)
    union all
    select case d.deptype when 'i' then 'identity:' else 'owned:' end || s.oid, null, null, d.refclassid, d.refobjid, d.refobjsubid
      from pg_class s join pg_depend d on d.classid = 'pg_class'::regclass and d.objid = s.oid
     where s.relkind = 'S' and d.deptype in ('a', 'i') and d.refclassid = 'pg_class'::regclass
    union all select 'owned:' || s.oid, null, null, 'pg_class'::regclass, s.oid, 0 from pg_class s where s.relkind = 'S'
    union all select 'replica:' || i.indrelid, null, null, 'pg_class'::regclass, i.indexrelid, 0 from pg_index i where i.indisreplident
    union all select format('comment:%s:%s:%s', d.classoid, d.objoid, d.objsubid), null, null, d.classoid, d.objoid, d.objsubid
      from pg_description d where d.objoid >= 16384
  )
  select coalesce(d.id, x.id, d.classid::regclass || ':' || d.objid) as "from",
         coalesce(y.id, d.refclassid::regclass || ':' || d.refobjid) as "to",
         coalesce(array_agg(distinct quote_ident(a.attname)) filter (where a.attname is not null), '{}') as columns
    from edge d
    left join piece_of x on x.classid = d.classid and x.objid = d.objid
    left join piece_of y on y.classid = d.refclassid and y.objid = d.refobjid
    left join pg_attribute a on d.refclassid = 'pg_class'::regclass and d.refobjsubid > 0 and a.attrelid = d.refobjid and a.attnum = d.refobjsubid
   group by 1, 2 limit ${limit}`)
