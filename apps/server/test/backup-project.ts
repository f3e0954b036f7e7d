// A project with objects of every kind, and its backups.
import assert from 'node:assert/strict'
import { type Backup, backupsApi, type Restore } from '@plinth/contract/backups.ts'
import { type Client, client } from '@plinth/contract/client.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { eventually } from './eventually.ts'
import type { TestPlatform } from './harness.ts'
import { type WebhookProject, webhookProject } from './webhook-project.ts'

export interface BackedUpProject extends WebhookProject {
  backups: Client<typeof backupsApi>
  /** Makes a backup and waits until it has ended. */
  backUp(): Promise<Backup>
  /** Verifies a backup and waits for the result. */
  verify(backupId: string): Promise<Backup>
  ended(backupId: string): Promise<Backup>
  /** Restores a backup in the place of the project and waits until it has ended. */
  restore(backupId: string): Promise<Restore>
  /** Waits until a restore has one of the statuses, or an error. */
  restoreEnded(restoreId: string, statuses?: readonly string[]): Promise<Restore>
}

/** Objects of every kind that pg_dump knows and tenants can create. */
export const richSchema = `
  create type mood as enum ('good', 'bad');
  create domain positive as int check (value > 0);
  create type pair as (first int, second text);
  create type span as range (subtype = int4);
  create sequence numbers start 5;
  create function double(n int) returns int language sql immutable as 'select n * 2';
  create table things (
    id bigint generated always as identity primary key, name text not null, mood mood default 'good', size positive,
    doubled int generated always as (double(size)) stored, pairs pair[], span span, at timestamptz default '2030-01-31 10:00Z',
    price numeric(12, 4), bytes bytea, number float8, tags text[], data jsonb, check (double(size) > 0));
  create index things_name on things (lower(name));
  create unique index things_data on things using btree ((data ->> 'key')) where data is not null;
  create index things_tags on things using gin (tags);
  comment on table things is 'Things; with a '' quote';
  create table parts (id int, thing bigint references things on delete cascade, primary key (id, thing)) partition by range (id);
  create table parts_low partition of parts for values from (0) to (100);
  create table parts_high partition of parts for values from (100) to (1000);
  create table profiles (id uuid primary key references auth.users on delete cascade, nickname text);
  create view named_things with (security_invoker = true) as select id, name from things;
  create materialized view thing_counts as select mood, count(*) from things group by mood;
  create function touch() returns trigger language plpgsql as $$ begin new.name := trim(new.name); return new; end $$;
  create trigger touch before insert or update on things for each row execute function touch();
  create function add_profile() returns trigger language plpgsql security definer set search_path = '' as $$
    begin insert into public.profiles values (new.id, new.email); return new; end $$;
  create trigger add_profile after insert on auth.users for each row execute function add_profile();
  alter table things enable row level security;
  create policy own_things on things for select to authenticated using (name <> 'secret');
  create policy avatars on storage.objects for select to anon using (bucket_id = 'avatars');
  grant select (id, name) on things to anon;
  create schema shop;
  create table shop.orders (id serial primary key, note text collate "C");
  create rule no_delete as on delete to shop.orders do instead nothing;
  create aggregate total (int) (sfunc = int4pl, stype = int, initcond = '0');
  create operator === (leftarg = int, rightarg = int, function = int4eq);
  create text search configuration plain (copy = simple);
  create publication changes for table things;
  alter default privileges in schema shop grant select on tables to anon;
  create extension if not exists citext;
  create statistics thing_statistics on name, mood from things`

export const richRows = `
  insert into things (name, mood, size, pairs, span, price, bytes, number, tags, data)
  select 'thing ' || n, (array['good', 'bad']::mood[])[1 + n % 2], n, array[(n, E'tab\\tand \\\\ line\\n')]::pair[],
         int4range(n, n + 5)::text::span, n / 7.0, decode(md5(n::text), 'hex'), n / 3.0, array['a', null, 'c "d"'],
         jsonb_build_object('key', n, 'text', 'ünïcode')
    from generate_series(1, 2000) n;
  insert into parts select n, n from generate_series(1, 300) n;
  insert into shop.orders (note) values ('first'), (null), ('');
  select nextval('numbers'), lo_from_bytea(0, 'a large object'::bytea);
  select lo_from_bytea(70001, 'shared'), lo_from_bytea(70002, 'closed');
  grant select on large object 70001 to anon, public;
  grant select, update on large object 70001 to authenticated with grant option;
  comment on large object 70001 is 'Shared; with a '' quote';
  do $$ begin execute format('revoke all on large object 70002 from %I', current_user); end $$;
  refresh materialized view thing_counts`

export async function backedUpProject(platform: TestPlatform): Promise<BackedUpProject> {
  const project = await webhookProject(platform)
  const backups = client(backupsApi, { baseUrl: platform.url, token: platform.adminToken })
  const params = { id: project.id }
  async function find(backupId: string): Promise<Backup> {
    const { backups: list } = await backups.list({ params, query: {} })
    const found = list.find(({ id }) => id === backupId)
    assert.ok(found, 'the backup is in the list')
    return found
  }
  async function until(backupId: string, isOver: (backup: Backup) => boolean, what: string): Promise<Backup> {
    let found = await find(backupId)
    await eventually(async () => {
      found = await find(backupId)
      return isOver(found)
    }, what)
    return found
  }
  const ended = (backupId: string) =>
    until(backupId, ({ status }) => status !== 'running', 'the backup has ended')
  async function restoreEnded(restoreId: string, statuses: readonly string[] = ['done', 'failed']) {
    let found: Restore | undefined
    await eventually(async () => {
      const { restores } = await backups.restores({ params, query: {} })
      found = restores.find(({ id }) => id === restoreId)
      return (
        found !== undefined &&
        found.progress === null &&
        (statuses.includes(found.status) || found.error !== null)
      )
    }, 'the restore is over')
    return found!
  }
  return {
    ...project,
    backups,
    ended,
    restoreEnded,
    async restore(backupId) {
      const { restore } = await backups.restore({ params: { ...params, backup_id: backupId }, body: null })
      return restoreEnded(restore.id)
    },
    async backUp() {
      const { id, status } = await backups.create({ params })
      assert.equal(status, 'running')
      return ended(id)
    },
    async verify(backupId) {
      // A verification that the platform has begun by itself is in the way until it has ended.
      const begin = () =>
        backups.verify({ params: { ...params, backup_id: backupId } }).then(
          () => true,
          error => {
            if (error.code !== 'project_busy') throw error
            return false
          },
        )
      await eventually(begin, 'the verification begins')
      const tasks = sql`select from backup_tasks where backup_id = ${backupId}`
      await eventually(async () => !(await platform.app.control.row(tasks)), 'the verification has ended')
      return find(backupId)
    },
  }
}
