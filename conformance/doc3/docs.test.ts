// 3 §4 "Health and description": GET /projects/{id}/docs, derived from the project's own schema.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { type CreatedProject, createProject, mintToken, someId } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertManagementError } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it)
  const pushed = await it.manage('POST', `/projects/${project.id}/db/push`, {
    migrations: [
      {
        version: '1',
        sql: `create type mood as enum ('ok', 'sad');
          create table books (id int primary key, title text not null, mood mood, secret text);
          comment on table books is 'What we lend';
          revoke all on books from anon; grant select (id, title) on books to anon;
          create table ledger (id int); revoke all on ledger from anon;
          create view titles as select title from books;
          create function shelf(book int, floor int default 0) returns text stable language sql as $$ select 'a' $$;`,
      },
    ],
  })
  assert.equal(pushed.status, 200, pushed.text)
})
after(() => it.stop())

const docs = (token?: string, id = project.id) =>
  it.call('GET', `/api/v1/projects/${id}/docs`, token ? { token } : {})
const path = (rest: string) => `/v1/rest/${project.id}/${rest}`

test('3 §4: without a credential the document shows what anon may access', async () => {
  const { status, body } = await docs()
  assert.equal(status, 200)
  assert.deepEqual(await new Validator().validate(body), { valid: true })
  assert.deepEqual(Object.keys(body.paths[path('books')]), ['get'])
  assert.deepEqual(Object.keys(body.components.schemas['public.books'].properties), ['id', 'title'])
  assert.equal(body.paths[path('ledger')], undefined)
  assert.ok(body.paths[path('rpc/shelf')].get)
})

test('3 §4: with read scope it shows all of the exposed schemas', async () => {
  const { token } = await mintToken(it, 'read')
  const { status, body } = await docs(token)
  assert.equal(status, 200)
  assert.deepEqual(await new Validator().validate(body), { valid: true })
  assert.deepEqual(Object.keys(body.paths[path('books')]), ['get', 'post', 'patch', 'delete'])
  assert.ok(body.paths[path('ledger')])
  const books = body.components.schemas['public.books']
  assert.equal(books.description, 'What we lend')
  assert.deepEqual(books.properties.mood.enum, ['ok', 'sad', null])
  const call = body.paths[path('rpc/shelf')].post.requestBody.content['application/json'].schema
  assert.deepEqual([Object.keys(call.properties), call.required], [['book', 'floor'], ['book']])
})

test('3 §5: a credential that is sent is checked', async () => {
  assertManagementError(await docs('platform_pat_nonsense'), 'unauthorized')
  assertManagementError(await docs(project.service_role_key), 'unauthorized')
  assertManagementError(await docs(undefined, someId), 'project_not_found')
})
