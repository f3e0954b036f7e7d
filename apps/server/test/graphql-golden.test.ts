// Documents with the SQL they compile to and the answer, in graphql-golden/. With PLINTH_WRITE_GOLDEN=1 the files are
// written again.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { openCatalogs } from '#src/query/catalogs.ts'
import { openEngines, type RoleEngine } from '#src/services/graphql/engines.ts'
import { graphqlProject } from './graphql-project.ts'

const folder = new URL('graphql-golden/', import.meta.url)
const isWriting = process.env['PLINTH_WRITE_GOLDEN'] === '1'

const { platform, project, send } = graphqlProject(`
  create table authors (id serial primary key, name text not null, email text unique);
  create type status as enum ('draft', 'live');
  create table posts (
    id bigint primary key generated always as identity, author_id int not null references authors, title text not null,
    body text, state status not null default 'draft', tags text[], score numeric, meta jsonb,
    created_at timestamptz not null default '2026-01-01');
  create table comments (id int primary key, post_id bigint references posts, body text);
  alter table authors disable row level security;
  alter table posts disable row level security;
  alter table comments disable row level security;
  insert into authors (name, email) values ('Ada', 'ada@x.test'), ('Bob', 'bob@x.test');
  insert into posts (author_id, title, tags, score, meta, state)
    select 1 + i % 2, 'post ' || i, array['t' || i, 'all'], i * 1.5, jsonb_build_object('n', i),
           case when i % 2 = 0 then 'live'::status else 'draft' end
      from generate_series(1, 4) i;
  insert into comments values (1, 2, 'first');
  create function total_posts() returns bigint stable language sql as $$ select count(*) from posts $$;
  create function live_posts() returns setof posts stable language sql as $$ select * from posts where state = 'live' $$;
  create function rename_author(id int, name text) returns authors language sql as
    $$ update authors set name = rename_author.name where authors.id = rename_author.id returning * $$;
  create function _initial(authors) returns text stable language sql as $$ select left($1.name, 1) $$;
  comment on table posts is '@graphql({"aggregate": {"enabled": true}})'`)

let engine: RoleEngine
let version: number
before(async () => {
  const { directory, databases } = platform.app
  const tenant = (await directory.find(project.id))!
  const catalog = await openCatalogs(databases).of(tenant)
  version = catalog.version
  const limits = {
    maxDocumentBytes: 50_000,
    maxDepth: 30,
    maxFields: 1000,
    maxAliases: 100,
    maxComplexity: 1e6,
  }
  engine = await openEngines(databases, limits, 1000).of(tenant, catalog, 'service_role', 'public')
})

const block = (text: string, language: string): string | undefined =>
  new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\\n\`\`\``).exec(text)?.[1]

/** Line breaks, and no number of the schema's version. */
const readable = (sql: string): string =>
  sql
    .replaceAll(`= ${version} then`, '= 1 then')
    .replaceAll(`require_current(${version})`, 'require_current(1)')
    .replace(/ (?=(?:from|where|order by|limit|offset|returning) )/g, '\n  ')

for (const name of readdirSync(folder).toSorted())
  test(`graphql golden: ${name}`, async () => {
    const path = new URL(name, folder)
    const text = readFileSync(path, 'utf8')
    const query = block(text, 'graphql')!
    const variables = JSON.parse(block(text, 'variables') ?? '{}') as Record<string, unknown>
    const request = { text: query, operationName: undefined, variables, bytes: 0, isReadOnly: false }
    const planned = await engine.plan(request, new AbortController().signal)
    const reply = await send({ query, variables })
    const sql = planned.statements.map(each => readable(each.sql)).join('\n\n')
    const values = planned.values.length > 0 ? `\nValues: \`${JSON.stringify(planned.values)}\`\n` : ''
    const asked = text.slice(0, text.indexOf('```sql') < 0 ? text.length : text.indexOf('```sql'))
    const answer = JSON.stringify(reply.body, null, 2)
    const written = `${asked.trimEnd()}\n\n\`\`\`sql\n${sql}\n\`\`\`\n${values}\n\`\`\`json\n${answer}\n\`\`\`\n`
    if (isWriting) writeFileSync(path, written)
    else assert.equal(written, text)
  })
