// A project with tables to read and to write, and clients for it in both shapes of the URL.
import { setTimeout as sleep } from 'node:timers/promises'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { PostgrestClient } from '@supabase/postgrest-js'
import { createClient, type SupabaseClient } from '@supabase/supabase-js'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import type { TestPlatform } from '../harness.ts'
import { watched } from './recorder.ts'

// The version selects the methods in the types of the client.
type Version = { PostgrestVersion: '14' }
export type Rows = Pick<PostgrestClient<any, Version, any, any>, 'from' | 'rpc' | 'schema' | 'getOpenApiSpec'>

export interface Shape {
  name: string
  connect(url: string, projectId: string, key: string, options?: ConnectOptions): Rows
}
export interface ConnectOptions {
  /** The JWT of a signed-in user. */
  token?: string
  schema?: string
}

export const shapes: readonly Shape[] = [
  {
    name: 'createClient at /v1/<project_id>',
    connect: (url, projectId, key, { token, schema = 'public' } = {}) =>
      createClient(`${url}/v1/${projectId}`, key, {
        auth: { persistSession: false, autoRefreshToken: false },
        db: { schema },
        ...(token !== undefined && { accessToken: async () => token }),
      }) as SupabaseClient<any, any, any> as unknown as Rows,
  },
  {
    name: 'PostgrestClient at /v1/rest/<project_id>',
    connect: (url, projectId, key, { token = key, schema = 'public' } = {}) =>
      new PostgrestClient<any, Version, any, any>(`${url}/v1/rest/${projectId}`, {
        headers: { apikey: key, Authorization: `Bearer ${token}` },
        schema,
      }),
  },
]

export interface Stage {
  platform: TestPlatform
  project: CreatedProject
  anon: Rows
  service: Rows
  /** A client signed in as this user. */
  user(id: string): Rows
  as(key: string, options?: ConnectOptions): Rows
  /** Runs a script as the project's owner. */
  sql(script: string): Promise<void>
  /** Empties the table `notes`. */
  clearNotes(): Promise<void>
}

export async function setStage(platform: TestPlatform, shape: Shape): Promise<Stage> {
  const unlimited = { rate_limit_anon: 0, rate_limit_authenticated: 0, rate_limit_service_role: 0 }
  const project = await platform.projects.create({
    body: {
      name: 'library',
      quotas: unlimited,
      settings: { exposed_schemas: ['public', 'shop'] },
    },
  })
  const ref = await platform.refOf(project.id)
  const sql = (script: string) =>
    platform.app.databases.asOwner({ ref }, session => session.script(script).then(() => {}))
  await sql(library)
  const as = (key: string, options?: ConnectOptions) =>
    watched(shape.connect(platform.url, project.id, key, options))
  const stage: Stage = {
    platform,
    project,
    anon: as(project.anon_key),
    service: as(project.service_role_key),
    as,
    user: id =>
      as(project.anon_key, { token: signJwt({ sub: id, role: 'authenticated' }, project.jwt_secret) }),
    sql,
    clearNotes: () => sql('truncate public.notes restart identity'),
  }
  await untilServed(stage.anon)
  return stage
}

/** Waits until the API serves the last table of the script. */
async function untilServed(client: Rows): Promise<void> {
  for (const deadline = Date.now() + 120_000; ; await sleep(20)) {
    const { error } = await client.from('diary').select().limit(0)
    if (!error) return
    if (Date.now() > deadline)
      throw new Error(`the API does not know the tables yet: ${JSON.stringify(error)}`)
  }
}

const library = `
create table public.authors (id int primary key, name text not null, born date);
create table public.books (
  id int primary key,
  author_id int references public.authors,
  title text not null,
  pages int,
  price numeric(8, 2),
  in_print boolean,
  tags text[] not null default '{}',
  meta jsonb,
  on_sale int4range,
  summary text,
  hidden boolean not null default false,
  words tsvector generated always as (to_tsvector('english', title)) stored
);
insert into public.authors values
  (1, 'Ursula', '1929-10-21'), (2, 'Stanislaw', '1921-09-12'), (3, 'Octavia', null);
insert into public.books values
  (1, 1, 'The Dispossessed', 387, 12.50, true, '{scifi,utopia}',
    '{"series": "Hainish", "stats": {"awards": 3}, "formats": ["paper", "audio"]}', '[10,20)', 'An ambiguous utopia'),
  (2, 1, 'The Left Hand of Darkness', 304, 9.99, true, '{scifi,gender}',
    '{"series": "Hainish", "stats": {"awards": 2}}', '[20,30)', null),
  (3, 2, 'Solaris', 204, 7.25, false, '{scifi,ocean}', '{"stats": {"awards": 0}}', '[1,5)', 'A planet thinks'),
  (4, 2, 'The Cyberiad', 295, null, null, '{scifi,humour}', null, '[5,10)', 'Robots, kings and (un)happy ends'),
  (5, 3, 'Kindred', 264, 8.00, true, '{history}', '{"series": null}', null, 'Pulled back in time'),
  (6, null, 'Beowulf', 100, 5.00, true, '{}', '{}', '[50,60)', null);
insert into public.books values
  (7, 1, 'A draft', 1, 1.00, false, '{}', null, null, null, true);
create policy everybody on public.authors for select using (true);
create policy published on public.books for select using (not hidden);

create table public.notes (
  id int primary key generated by default as identity,
  title text unique not null,
  body text default 'empty',
  stars int default 3 check (stars <= 5),
  big bigint,
  author_id int references public.authors
);
create policy everybody on public.notes using (true) with check (title is distinct from 'forbidden');
create table public.keyless (label text);
create policy everybody on public.keyless using (true) with check (true);

create schema shop;
grant usage on schema shop to anon, authenticated, service_role;
create table shop.items (id int primary key, label text);
insert into shop.items values (1, 'lamp');
create policy everybody on shop.items using (true) with check (true);
grant select, insert, update, delete on shop.items to anon, authenticated, service_role;
create function shop.item_count() returns bigint language sql stable as 'select count(*) from shop.items';
grant execute on function shop.item_count() to anon, authenticated, service_role;
create schema backroom;
create table backroom.ledger (id int);

create function public.add(a int, b int) returns int language sql immutable return a + b;
create function public.pages_of(ids int[]) returns bigint language sql stable
  return (select sum(pages) from public.books where id = any(ids));
create function public.books_by(author text) returns setof public.books language sql stable
  as $$ select b.* from public.books b join public.authors a on a.id = b.author_id where a.name = author $$;
create function public.one_book(wanted int) returns public.books language sql stable
  as $$ select * from public.books where id = wanted $$;
create function public.shelf() returns table (author text, books bigint) language sql stable
  as $$ select a.name, count(*) from public.authors a join public.books b on b.author_id = a.id group by a.name $$;
create function public.echo(payload jsonb) returns jsonb language sql immutable return payload;
create function public.note(said text) returns void language sql as $$ insert into public.notes (title) values (said) $$;
create function public.remove_notes(prefix text) returns setof public.notes language sql
  as $$ delete from public.notes where title like prefix || '%' returning * $$;
create function public.refuse() returns void language plpgsql
  as $$ begin raise 'not today' using hint = 'try tomorrow', detail = 'closed'; end $$;
create function public.slow() returns int language sql as $$ select 1 from pg_sleep(2) $$;

create table public.diary (
  id int primary key generated always as identity,
  owner uuid not null default auth.uid(),
  entry text not null
);
create policy own on public.diary to authenticated using (owner = auth.uid()) with check (owner = auth.uid());
`
