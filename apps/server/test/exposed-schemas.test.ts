// Exposing a schema warns about its tables without row-level security.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
let project: Project
before(async () => {
  platform = await startPlatform()
  project = await Project.create(platform)
  await project.asOwner(session =>
    session.script(`
      create schema api;
      create table api.kept (a int); create view api.looking as select a from api.kept;
      create table api.open (a int) partition by list (a); create table api.open_part partition of api.open default;
      create schema tidy; create table tidy.t (a int);
      create schema wide; create schema hidden; create table hidden.open (a int);
      do $$ begin for i in 1..53 loop execute format('create table wide.%I (a int)', 't' || lpad(i::text, 2, '0')); end loop; end $$;
      do $$ declare t regclass; begin
        for t in select c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
                  where c.relkind in ('r', 'p') and (n.nspname = 'wide' or c.relname like 'open%') loop
          execute format('alter table %s disable row level security', t);
        end loop;
      end $$`),
  )
})
after(() => platform.stop())

const patch = (body: object, id = project.id) =>
  platform.call('PATCH', `/api/v1/projects/${id}`, { token: platform.adminToken, body })
const expose = (exposed_schemas: unknown) => patch({ settings: { exposed_schemas } })

test('exposed schemas: the answer names the tables without row-level security', async () => {
  const { status, body } = await expose(['public', 'api', 'tidy', 'missing'])
  assert.equal(status, 200)
  assert.deepEqual(body.settings.exposed_schemas, ['public', 'api', 'tidy', 'missing'])
  assert.equal(body.warnings.length, 1)
  const [{ message, ...warning }] = body.warnings
  assert.deepEqual(warning, {
    code: 'tables_without_rls',
    schema: 'api',
    tables: ['open', 'open_part'],
    total: 2,
  })
  assert.match(message, /^Schema "api" has 2 tables without row-level security: open, open_part\. /)
})

test('exposed schemas: the list is bounded, with the number of all of them', async () => {
  const { body } = await expose(['wide'])
  const [{ tables, total, message }] = body.warnings
  assert.deepEqual([tables.length, tables[0], tables.at(-1), total], [50, 't01', 't50', 53])
  assert.match(message, /t49, t50 and 3 more/)
})

test('exposed schemas: without such tables the list is empty, and other changes have none', async () => {
  assert.deepEqual((await expose(['tidy'])).body.warnings, [])
  assert.deepEqual((await expose(null)).body.warnings, [])
  assert.equal((await patch({ description: 'x' })).body.warnings, undefined)
})

test('exposed schemas: a database that cannot be searched does not fail the change', async () => {
  const other = await Project.create(platform)
  await platform.asSuperuser('postgres', session =>
    session.script(`alter role ${other.ref}_owner connection limit 0`),
  )
  const { status, body } = await patch({ settings: { exposed_schemas: ['api'] } }, other.id)
  assert.deepEqual([status, body.settings.exposed_schemas], [200, ['api']])
  assert.deepEqual(
    body.warnings.map(({ code }: any) => code),
    ['rls_not_checked'],
  )
})
