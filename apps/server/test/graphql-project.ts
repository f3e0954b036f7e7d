// A project with authors, posts and comments for the tests of GraphQL.
import assert from 'node:assert/strict'
import { after, before } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { type Reply, startPlatform, type TestPlatform } from './harness.ts'

export type GraphqlRole = 'anon' | 'service_role'

interface Extras {
  variables?: Record<string, unknown>
  operationName?: string
  as?: GraphqlRole
}

export function graphqlProject(schema = '') {
  const platform = {} as TestPlatform
  const project = {} as CreatedProject

  before(async () => {
    const settings = {
      PLATFORM_RATE_LIMIT_SERVICE_ROLE: '0',
      PLATFORM_RATE_LIMIT_ANON: '0',
      PLATFORM_STATEMENT_TIMEOUT_MS: '60000',
    }
    Object.assign(platform, await startPlatform({ settings }))
    Object.assign(project, await platform.createProject())
    if (schema) await owner(schema)
  })
  after(() => platform.stop?.())

  const send = (body: unknown, as: GraphqlRole = 'service_role'): Promise<Reply> =>
    platform.call('POST', `/v1/graphql/${project.id}`, {
      apikey: as === 'anon' ? project.anon_key : project.service_role_key,
      body,
    })

  /** The data of a request that succeeds. */
  async function data(query: string, { as, ...rest }: Extras = {}): Promise<any> {
    const reply = await send({ query, ...rest }, as)
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    assert.deepEqual(Object.keys(reply.body), ['data'], JSON.stringify(reply.body))
    return reply.body.data
  }

  /** The messages of a request that fails. */
  async function messages(query: string, { as, ...rest }: Extras = {}): Promise<string[]> {
    const reply = await send({ query, ...rest }, as)
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    assert.equal(reply.body.data, null, JSON.stringify(reply.body))
    return reply.body.errors.map((error: { message: string }) => error.message)
  }

  async function owner(sql: string): Promise<Reply> {
    const reply = await platform.call('POST', `/v1/rest/${project.id}/rpc/exec_sql`, {
      apikey: project.service_role_key,
      body: { sql },
    })
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    return reply
  }

  return { platform, project, send, data, messages, owner }
}

export const blog = `
  create table authors (id serial primary key, name text not null, email text unique, born date);
  create type status as enum ('draft', 'live');
  create table posts (
    id bigint primary key generated always as identity, author_id int not null references authors,
    title text not null, body text, state status not null default 'draft', tags text[], score numeric, meta jsonb,
    created_at timestamptz not null default '2026-01-01');
  create table comments (id uuid primary key default gen_random_uuid(), post_id bigint references posts, body text);
  create index on posts (author_id); create index on comments (post_id);
  alter table authors disable row level security;
  alter table posts disable row level security;
  alter table comments disable row level security;
  insert into authors (name, email) values ('Ada', 'ada@x.test'), ('Bob', 'bob@x.test'), ('Cy', null);
  insert into posts (author_id, title, tags, score, meta, state)
    select 1 + i % 2, 'post ' || i, array['t' || i, 'all'], i * 1.5, jsonb_build_object('n', i),
           case when i % 2 = 0 then 'live'::status else 'draft' end
      from generate_series(1, 40) i;
  insert into comments (post_id, body) select id, 'first' from posts where id <= 3`
