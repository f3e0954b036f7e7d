// The places of sequences. A tenant can give the name of a sequence to another relation at any time. A SELECT from that would
// run code of the tenant as the superuser, so no statement takes a name that could have changed.
import type { CopySession } from '#src/kernel/postgres/copy.ts'
import { literal } from '#src/kernel/postgres/sql.ts'
import type { Sequence } from './manifest.ts'

interface FoundSequence {
  oid: string
  name: string
}

const atOnce = 200
const fromSequences = `
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace`
const isListed = `c.relkind = 'S' and c.relpersistence <> 't'`
const nameOf = `pg_catalog.format('%I.%I', n.nspname, c.relname) as name`

const canReadByOid = `
  select pg_catalog.to_regprocedure('pg_catalog.pg_get_sequence_data(pg_catalog.regclass)') is not null as is_there`
const selectByOid = `
  select ${nameOf}, d.last_value::pg_catalog.text as value, d.is_called::pg_catalog.text as is_called
    ${fromSequences} cross join lateral pg_catalog.pg_get_sequence_data(c.oid) d
   where ${isListed} order by 1`
const selectNames = `select c.oid::pg_catalog.text as oid, ${nameOf} ${fromSequences} where ${isListed} order by 2`

/**
 * No schema is renamed while this lock is held, and none of these relations can get another name, as long as they are locked,
 * too. The check does not depend on a snapshot.
 */
export const holdNames = (relations: readonly string[], lock: string, isExpected: string) => `
  set local lock_timeout = '10s';
  lock table pg_catalog.pg_namespace in share mode;
  ${lock};
  do $check$
  begin
    if exists (
      select from pg_catalog.unnest(array[${relations.map(literal).join(', ')}]) as given (name) where (${isExpected}) is not true
    ) then
      raise exception 'a relation was renamed or dropped while it was read';
    end if;
  end $check$;`

/** Before Postgres 18, the catalogue does not have the place of a sequence that was set but not used since. */
function selectByNames(found: readonly FoundSequence[]): string {
  const oids = `array[${found.map(({ oid }) => literal(oid)).join(', ')}]::pg_catalog.oid[]`
  const names = found.map(({ name }) => name)
  const numbered = `array[${names.map(literal).join(', ')}]`
  // The function locks the sequence, and fails for other relations.
  const lock = `select pg_catalog.pg_sequence_last_value(oid) from pg_catalog.unnest(${oids}) oid`
  const isExpected = `pg_catalog.to_regclass(name)::pg_catalog.oid = (${oids})[pg_catalog.array_position(${numbered}, name)]`
  const each = (name: string) =>
    `select ${literal(name)} as name, last_value::pg_catalog.text as value, is_called::pg_catalog.text as is_called from ${name}`
  return `${holdNames(names, lock, isExpected)} ${names.map(each).join(' union all ')}`
}

/** `aside` is given another session, because locks are held until the end of a transaction. */
export async function readSequences(
  session: CopySession,
  aside: <T>(work: (other: CopySession) => Promise<T>) => Promise<T>,
): Promise<Sequence[]> {
  const [server] = await session.rows<{ is_there: string }>(canReadByOid)
  if (server?.is_there === 't') {
    const sequences = await session.rows<Sequence>(selectByOid)
    const lost = sequences.find(({ value }) => value === null)
    if (lost) throw new Error(`the sequence ${lost.name} was dropped while it was read`)
    return sequences
  }
  return readByNames(await session.rows<FoundSequence>(selectNames), aside)
}

export async function readByNames(
  found: readonly FoundSequence[],
  aside: <T>(work: (other: CopySession) => Promise<T>) => Promise<T>,
): Promise<Sequence[]> {
  if (found.length === 0) return []
  return aside(async other => {
    const sequences: Sequence[] = []
    for (let at = 0; at < found.length; at += atOnce)
      sequences.push(...(await other.rows<Sequence>(selectByNames(found.slice(at, at + atOnce)))))
    return sequences
  })
}
