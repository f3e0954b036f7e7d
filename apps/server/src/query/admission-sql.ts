// Statements that refuse, in the words of Postgres, what a role may not do with a relation or a function, before the
// values it sent are looked at. Privileges are asked for each time: memberships of roles change without a trace in
// the version of the catalogue.
import { literal } from '#src/kernel/postgres/sql.ts'
import { guardSql } from './answer-sql.ts'
import type { Catalog, Relation } from './catalog.ts'
import { Writer } from './writer.ts'

interface AdmissionSql {
  sql: string
  writer: Writer
}

const denied = (message: string) => `platform.refuse('42501', ${message})`

/** A privilege on any column is enough: which columns are meant is not known yet. */
export function writeAdmissionSql(
  catalog: Catalog,
  { oid }: Relation,
  privileges: readonly ('INSERT' | 'UPDATE')[],
): AdmissionSql {
  const lacking = privileges.map(each => `not pg_catalog.has_any_column_privilege(c.oid, '${each}')`)
  const sql = `select ${guardSql(catalog)}, case
    when not pg_catalog.has_schema_privilege(n.oid, 'USAGE') then ${denied(`'permission denied for schema ' || n.nspname`)}
    when ${lacking.join(' or ')} then ${denied(`'permission denied for ' || ${kindSql} || ' ' || c.relname`)}
    ${privileges.includes('INSERT') ? `when ${policySql} then ${denied(`'new row violates row-level security policy for table "' || c.relname || '"'`)}` : ''}
    end from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = ${oid}`
  return { sql, writer: new Writer(undefined) }
}

const kindSql = `case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end`

/** No policy lets the role insert, and nothing stands before the table that could put the row elsewhere. */
const policySql = `c.relkind = 'r' and not c.relhasrules and pg_catalog.row_security_active(c.oid)
      and not exists (select from pg_catalog.pg_trigger t where t.tgrelid = c.oid and t.tgtype::int & 2 <> 0)
      and not exists (
        select from pg_catalog.pg_policy p
         where p.polrelid = c.oid and p.polpermissive and p.polcmd in ('a', '*')
           and (0 = any(p.polroles) or exists (
             select from pg_catalog.unnest(p.polroles) r(oid) where pg_catalog.pg_has_role(r.oid, 'USAGE'))))`

/** The privilege on any function of the name is enough. */
export function callAdmissionSql(catalog: Catalog, schema: string, name: string): AdmissionSql {
  const sql = `select ${guardSql(catalog)}, case
    when not pg_catalog.has_schema_privilege(n.oid, 'USAGE') then ${denied(`'permission denied for schema ' || n.nspname`)}
    when not exists (
      select from pg_catalog.pg_proc p
       where p.pronamespace = n.oid and p.proname = ${literal(name)} and pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))
      then ${denied(literal(`permission denied for function ${name}`))}
    end from pg_catalog.pg_namespace n where n.nspname = ${literal(schema)}`
  return { sql, writer: new Writer(undefined) }
}
