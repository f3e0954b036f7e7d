// A database with many kinds of objects, whose schema the tests dump.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { guardedSettings, type OwnSession, withClient } from '#src/kernel/postgres/database.ts'
import { DumpFailed, dumpSchema, type SchemaDumpOptions } from '#src/kernel/postgres/dump/schema-dump.ts'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'

export interface DumpedDatabase {
  readonly name: string
  readonly owner: string
  readonly reader: string
  readonly dataDir: string
  asSuperuser<T>(work: (session: OwnSession) => Promise<T>): Promise<T>
  asSuperuserIn<T>(database: string, work: (session: OwnSession) => Promise<T>): Promise<T>
  dump(options?: Partial<SchemaDumpOptions>): Promise<Buffer>
}

/** Larger than the memory between the connection and pg_dump. */
export const longText = 'long '.repeat(600_000)

const schema = (reader: string) => `
  create type public.mood as enum ('calm', 'glad');
  create domain public.percent as integer check (value between 0 and 100);
  create function public.twice(integer) returns integer language sql immutable return $1 * 2;
  create function public.stamp() returns trigger language plpgsql as 'begin return new; end';
  create function public.is_near(integer, integer) returns boolean language sql immutable return abs($1 - $2) < 2;
  create function public.long_text() returns text language sql as $$select '${longText}'$$;
  create operator public.=~= (leftarg = integer, rightarg = integer, function = public.is_near);
  create table public.people (
    id bigint generated always as identity primary key,
    name text not null default 'Zoë',
    mood public.mood,
    share public.percent,
    doubled integer generated always as (public.twice(share)) stored,
    length integer generated always as (length(name)) virtual,
    seen_at timestamptz default '2026-01-02 03:04:05+00',
    code bytea default '\\x6162'
  );
  create table public.visits (id bigint references public.people, at date) partition by range (at);
  create table public.visits_2026 partition of public.visits for values from ('2026-01-01') to ('2027-01-01');
  create index people_name on public.people (lower(name));
  create view public.glad_people as select name from public.people where mood = 'glad';
  create trigger stamp before update on public.people for each row execute function public.stamp();
  alter table public.people enable row level security;
  create policy own on public.people for select using (name = current_user);
  comment on table public.people is 'People; with -- and ''quotes''';
  grant select (name) on public.people to ${reader};
`

/** Creates the database before the tests of a file. */
export function useDumpedDatabase(address: () => ServerAddress): DumpedDatabase {
  const suffix = randomBytes(6).toString('hex')
  const name = `dumped_${suffix}`
  const owner = `dumped_owner_${suffix}`
  const reader = `dumped_reader_${suffix}`
  const dataDir = mkdtempSync(join(tmpdir(), 'plinth-dumps-'))
  const inDatabase = <T>(database: string, work: (session: OwnSession) => Promise<T>) =>
    withClient(address(), database, guardedSettings, work)

  before(async () => {
    await inDatabase('postgres', async session => {
      await session.script(`create database ${name}`)
      await session.script(`create role ${owner}; create role ${reader}`)
    })
    await inDatabase(name, async session => {
      await session.script(`grant create, usage on schema public to ${owner}`)
      await session.script(`set local role ${owner}; ${schema(reader)}`)
      await session.script('create publication changes for table public.people')
    })
  })
  after(async () => {
    await inDatabase('postgres', async session => {
      await session.script(`drop database ${name} with (force)`)
      await session.script(`drop role ${owner}, ${reader}`)
    })
    rmSync(dataDir, { recursive: true, force: true })
  })
  return {
    name,
    owner,
    reader,
    dataDir,
    asSuperuser: work => inDatabase(name, work),
    asSuperuserIn: inDatabase,
    dump: options => dumpSchema({ address: address(), database: name, dataDir, ...options }),
  }
}

export async function failureOf(attempt: Promise<unknown>): Promise<DumpFailed> {
  const error = await attempt.then(
    () => assert.fail('the dump did not fail'),
    (error: unknown) => error,
  )
  assert.ok(error instanceof DumpFailed, String(error))
  return error
}
