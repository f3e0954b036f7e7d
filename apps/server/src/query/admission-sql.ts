// Statements that fail, with the messages of Postgres, if a role lacks the privileges for a write or a call, before the
// payload is parsed. Privileges are checked each time, since a change of role memberships does not change the version
// of the catalogue.
import { literal } from '#src/kernel/postgres/sql.ts'
import { isCurrentSql } from './answer-sql.ts'
import type { Catalog, Relation } from './catalog.ts'
import { Writer } from './writer.ts'

interface AdmissionSql {
  sql: string
  writer: Writer
}

const denied = (message: string) => `platform.refuse('42501', ${message})`

/** A privilege on any column is enough: the columns are not known yet. */
export function writeAdmissionSql(
  catalog: Catalog,
  { oid }: Relation,
  privileges: readonly ('INSERT' | 'UPDATE')[],
): AdmissionSql {
  const lacking = privileges.map(each => `not pg_catalog.has_any_column_privilege(c.oid, '${each}')`)
  const sql = `select case
    when not pg_catalog.has_schema_privilege(n.oid, 'USAGE') then ${denied(`'permission denied for schema ' || n.nspname`)}
    when ${lacking.join(' or ')} then ${denied(`'permission denied for ' || ${kindSql} || ' ' || c.relname`)}
    ${privileges.includes('INSERT') ? `when ${policySql} then ${denied(`'new row violates row-level security policy for table "' || c.relname || '"'`)}` : ''}
    end from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.oid = ${oid} and ${isCurrentSql(catalog)}`
  return { sql, writer: new Writer(undefined) }
}

const kindSql = `case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end`

/** No policy lets the role insert, and no rule or BEFORE trigger could redirect the row. */
const policySql = `c.relkind = 'r' and not c.relhasrules and pg_catalog.row_security_active(c.oid)
      and not exists (select from pg_catalog.pg_trigger t where t.tgrelid = c.oid and t.tgtype::int & 2 <> 0)
      and not exists (
        select from pg_catalog.pg_policy p
         where p.polrelid = c.oid and p.polpermissive and p.polcmd in ('a', '*')
           and (0 = any(p.polroles) or exists (
             select from pg_catalog.unnest(p.polroles) r(oid) where pg_catalog.pg_has_role(r.oid, 'USAGE'))))`

/** The privilege on any function with this name is enough. */
export function callAdmissionSql(catalog: Catalog, schema: string, name: string): AdmissionSql {
  const sql = `select case
    when not pg_catalog.has_schema_privilege(n.oid, 'USAGE') then ${denied(`'permission denied for schema ' || n.nspname`)}
    when not exists (
      select from pg_catalog.pg_proc p
       where p.pronamespace = n.oid and p.proname = ${literal(name)} and pg_catalog.has_function_privilege(p.oid, 'EXECUTE'))
      then ${denied(literal(`permission denied for function ${name}`))}
    end from pg_catalog.pg_namespace n where n.nspname = ${literal(schema)} and ${isCurrentSql(catalog)}`
  return { sql, writer: new Writer(undefined) }
}
