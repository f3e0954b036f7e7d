// GET /projects/{id}/docs: the API documentation of a project, by caller.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import type { CallOptions } from './harness.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
let project: Project

before(async () => {
  platform = await startPlatform()
  project = await Project.create(platform)
  const pushed = await project.push({
    version: '1',
    sql: `
      create type mood as enum ('ok', 'sad');
      create type address as (street text, number int);
      create table people (id bigint generated always as identity primary key, name text not null, mood mood, home address,
        tags text[] not null default '{}', born date, "select" int, "odd name/{}" varchar(10), secret text default 'secret word', secret_id int, double int generated always as (1) stored);
      comment on table people is 'Who they are <b>';
      comment on column people.name is 'As they say it';
      create table closed (id int primary key);
      revoke all on closed from anon;
      alter table people add foreign key (id) references closed;
      create table "weird /{name}'" (id int primary key references people);
      create table append_only (id int);
      revoke select, update, delete on append_only from anon;
      revoke all on people from anon; grant select (id, name, mood), insert (name) on people to anon;
      create view names as select id, name from people;
      create view counted as select count(*) as n from people;
      create materialized view mv as select 1 as one;
      create function greet(who text, times int default 1) returns text stable language sql as $$ select who $$;
      comment on function greet is 'Says hello';
      create function change() returns void language sql as '';
      create function all_people() returns setof people stable language sql as 'select * from people';
      create function pairs() returns table (a int, b text) language sql as $$ select 1, 'x' $$;
      create function hidden() returns int language sql as 'select 1';
      revoke execute on function hidden from public, anon;
      create function of_body(json) returns json language sql as 'select $1';
      create function twice(a int) returns int language sql as 'select 1';
      create function twice(a int, b text) returns text language sql as 'select b';
      create schema app; create table app.items (id int, mood mood); create table app.people (id int);
      grant usage on schema app to anon; grant select on app.items to anon;
      create schema inner_ones; create table inner_ones.things (id int);`,
  })
  assert.equal(pushed.status, 200, pushed.body.error?.message)
})
after(() => platform.stop())

const read = (options: CallOptions = {}, search = '', id = project.id) =>
  platform.call('GET', `/api/v1/projects/${id}/docs${search}`, options)
const admin = () => ({ token: platform.adminToken })
const verbs = (document: any, path: string) =>
  Object.keys(document.paths[`/v1/rest/${project.id}/${path}`] ?? {}).filter(verb => verb !== 'parameters')

test('project docs: the documents for anon and admin are valid OpenAPI 3.1', async () => {
  for (const options of [{}, admin()]) {
    const { status, headers, body } = await read(options)
    assert.equal(status, 200)
    assert.match(headers.get('content-type')!, /^application\/json/)
    const validator = new Validator()
    assert.deepEqual(await validator.validate(body), { valid: true })
    assert.equal(validator.version, '3.1')
    assert.match(body.info.description, new RegExp(`POST /v1/graphql/${project.id}\\.$`))
  }
  const empty = await platform.createProject()
  assert.deepEqual(await new Validator().validate((await read({}, '', empty.id)).body), { valid: true })
})

test('project docs: without a credential they contain only what anon has access to', async () => {
  const { body } = await read()
  assert.deepEqual(verbs(body, 'people'), ['get', 'post'])
  const row = body.components.schemas['public.people']
  assert.deepEqual(Object.keys(row.properties), ['id', 'name', 'mood'])
  assert.deepEqual(verbs(body, 'closed'), [])
  assert.deepEqual(verbs(body, 'append_only'), ['post'])
  assert.deepEqual(verbs(body, 'mv'), [])
  assert.deepEqual(verbs(body, 'counted'), ['get'])
  assert.deepEqual(verbs(body, 'names'), ['get', 'post', 'patch', 'delete'])
  assert.deepEqual(verbs(body, 'rpc/hidden'), [])
  assert.doesNotMatch(JSON.stringify(body), /secret|closed|hidden|inner_ones/)
})

test('project docs: with read scope they contain everything in the exposed schemas', async () => {
  const { token } = await platform.platform.mintToken({ body: { name: 'docs', scope: 'read' } })
  const { body } = await read({ token })
  assert.deepEqual(verbs(body, 'people'), ['get', 'post', 'patch', 'delete'])
  assert.deepEqual(verbs(body, 'closed'), ['get', 'post', 'patch', 'delete'])
  assert.deepEqual(verbs(body, 'mv'), ['get'])
  assert.deepEqual(verbs(body, encodeURIComponent("weird /{name}'")), ['get', 'post', 'patch', 'delete'])
  assert.deepEqual(verbs(body, 'rpc/hidden'), ['post'])
  assert.doesNotMatch(JSON.stringify(body), /inner_ones|app\.items|app\.people/)
  assert.equal(body.components.schemas['public.people']['x-relationships'][0].references, 'public.closed')

  const { properties, description, ...rest } = body.components.schemas['public.people']
  assert.equal(description, 'Who they are <b>')
  assert.deepEqual(rest['x-primary-key'], ['id'])
  assert.deepEqual(rest['x-required-on-insert'], ['name'])
  assert.equal(properties.name.description, 'As they say it')
  assert.deepEqual(
    [properties.id.type, properties.id.format, properties.id.readOnly],
    ['integer', 'int64', true],
  )
  assert.deepEqual(
    [properties.mood.type, properties.mood.enum],
    [
      ['string', 'null'],
      ['ok', 'sad', null],
    ],
  )
  assert.deepEqual(properties.home.properties.number.type, ['integer', 'null'])
  assert.deepEqual([properties.tags.type, properties.tags.items], ['array', { type: 'string' }])
  assert.deepEqual([properties.born.format, properties['odd name/{}'].maxLength], ['date', 10])
  assert.equal(properties.double.readOnly, true)
  const filters = body.paths[`/v1/rest/${project.id}/people`].get.parameters
  assert.ok(filters.some((each: any) => each.name === 'odd name/{}' && each.in === 'query'))
  // A column named select cannot be a filter parameter.
  assert.ok(!filters.some((each: any) => each.name === 'select'))
})

test('project docs: functions have their arguments and results', async () => {
  const { body } = await read(admin())
  const at = (name: string) => body.paths[`/v1/rest/${project.id}/rpc/${name}`]
  const { get, post } = at('greet')
  assert.equal(post.description, 'Says hello')
  assert.deepEqual(post.requestBody.content['application/json'].schema, {
    type: 'object',
    properties: { who: { type: 'string' }, times: { type: 'integer', format: 'int32' } },
    required: ['who'],
  })
  assert.deepEqual(
    get.parameters.map(({ name, required }: any) => [name, required]),
    [
      ['who', true],
      ['times', false],
    ],
  )
  assert.deepEqual(verbs(body, 'rpc/change'), ['post'])
  assert.ok(at('change').post.responses['204'])
  assert.equal(at('all_people').get.responses['200'].content['application/json'].schema.type, 'array')
  const { items } = at('pairs').post.responses['200'].content['application/json'].schema
  assert.deepEqual(Object.keys(items.properties), ['a', 'b'])
  assert.deepEqual(at('of_body').post.requestBody.content['application/json'].schema, {})
  assert.equal(at('twice').post.requestBody.content['application/json'].schema.anyOf.length, 2)
})

test('project docs: other exposed schemas need a profile header', async () => {
  await platform.projects.update({
    params: { id: project.id },
    body: { settings: { exposed_schemas: ['public', 'app', 'not_there'] } },
  })
  const { body } = await read(admin())
  const profile = body.paths[`/v1/rest/${project.id}/items`].parameters
  assert.deepEqual(
    profile.map((each: any) => [each.name, each.schema.enum]),
    [
      ['Accept-Profile', ['app']],
      ['Content-Profile', ['app']],
    ],
  )
  // For a name in two schemas the path belongs to the default one, and ?schema= returns the other.
  assert.equal(body.paths[`/v1/rest/${project.id}/people`].parameters, undefined)
  const other = await read(admin(), '?schema=app')
  assert.deepEqual(Object.keys(other.body.paths).toSorted(), [
    `/v1/rest/${project.id}/items`,
    `/v1/rest/${project.id}/people`,
  ])
  assert.ok(other.body.paths[`/v1/rest/${project.id}/people`].parameters)
  assert.deepEqual(Object.keys((await read({}, '?schema=app')).body.paths), [`/v1/rest/${project.id}/items`])
  const unknown = await read(admin(), '?schema=inner_ones')
  assert.deepEqual([unknown.status, unknown.body.error.code], [404, 'schema_not_found'])
  assert.deepEqual(await new Validator().validate(body), { valid: true })
})

test('project docs: schema changes apply at once', async () => {
  await project.push({ version: '2', sql: 'create table fresh (id int)' })
  assert.deepEqual(verbs((await read()).body, 'fresh'), ['get', 'post', 'patch', 'delete'])
  await project.push({ version: '3', sql: 'revoke insert, update, delete on fresh from anon' })
  assert.deepEqual(verbs((await read()).body, 'fresh'), ['get'])
})

test('project docs: an invalid credential is 401, and one without read scope is 403', async () => {
  for (const token of ['nonsense', 'platform_pat_unknown']) assert.equal((await read({ token })).status, 401)
  const { anon_key } = await platform.projects.read({ params: { id: project.id } })
  assert.equal((await read({ token: anon_key })).status, 401)
  assert.equal((await read({ headers: { authorization: 'Basic eDp5' } })).status, 401)
  await platform.admin.createUser({
    body: { email: 'outsider@example.test', password: 'correct horse battery', role: 'developer' },
  })
  const { token } = await platform.platform.login({
    body: { email: 'outsider@example.test', password: 'correct horse battery' },
  })
  const outsider = await read({ token })
  assert.deepEqual([outsider.status, outsider.body.error.code], [403, 'insufficient_scope'])
  assert.match(outsider.body.error.message, /read scope on this project/)
})

test('project docs: an unknown project is 404, and a suspended one is 403 without a credential', async () => {
  const unknown = await read({}, '', crypto.randomUUID())
  assert.deepEqual([unknown.status, unknown.body.error.code], [404, 'project_not_found'])
  const { id } = await platform.createProject()
  await platform.projects.suspend({ params: { id } })
  const closed = await read({}, '', id)
  assert.deepEqual([closed.status, closed.body.error.code], [403, 'project_suspended'])
  assert.equal((await read(admin(), '', id)).status, 200)
})

test('project docs: a browser gets an HTML page with escaped content', async () => {
  const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
  const { status, headers, body } = await read({ ...admin(), headers: { accept } })
  assert.equal(status, 200)
  assert.match(headers.get('content-type')!, /^text\/html/)
  assert.match(headers.get('content-security-policy')!, /default-src 'none'/)
  assert.match(body, /Who they are &lt;b&gt;/)
  assert.doesNotMatch(body, /<b>|<script/)
  assert.match(body, /curl/)
  assert.match(
    (await read({ headers: { accept: 'application/json, text/html' } })).headers.get('content-type')!,
    /json/,
  )
  assert.match((await read({ headers: { accept: '*/*' } })).headers.get('content-type')!, /json/)
})

test('project docs: sixty concurrent requests without a credential succeed', async () => {
  const replies = await Promise.all(Array.from({ length: 60 }, () => read()))
  assert.deepEqual([...new Set(replies.map(({ status }) => status))], [200])
})
