// Functions that run with the rights of the superuser for every caller.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { raw } from '#src/kernel/postgres/sql.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform?.stop())

test('definer functions: those of the superuser name nothing in a schema in which the tenant can create', async () => {
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const found = await platform.asSuperuser(ref, async session => {
    // While a backup is restored, the tenant may create in all but these two.
    const schemas = await session.rows<{ name: string }>(
      raw(`select nspname as name from pg_namespace
            where nspname !~ '^(pg_|information_schema)' and nspname not in ('platform', 'auth')`),
    )
    const functions = await session.rows<{ name: string; body: string; path: string | null }>(
      raw(`select p.oid::regprocedure::text as name, p.prosrc as body,
                  (select setting from unnest(p.proconfig) setting where setting like 'search_path=%') as path
             from pg_proc p join pg_roles r on r.oid = p.proowner
            where p.prosecdef and r.rolsuper and p.oid >= 16384 order by 1`),
    )
    return { schemas: schemas.map(({ name }) => name), functions }
  })
  assert.ok(found.schemas.includes('storage') && found.functions.length > 10)
  const open = new RegExp(`\\b(?:${found.schemas.join('|')})\\s*\\.`)
  assert.deepEqual(
    // To look for a relation by its name runs no code.
    found.functions.filter(({ body }) => open.test(body.replaceAll(/--.*|\bto_regclass\('[^']*'\)/g, ''))),
    [],
  )
  // The search path of the others is that of the tenant, so every name in them has its schema.
  const unpinned = found.functions.filter(
    ({ path }) => path !== 'search_path=pg_catalog, pg_temp' && path !== 'search_path=""',
  )
  assert.deepEqual(
    unpinned.map(({ name }) => name),
    [],
  )
})

test('definer functions: the tenant can create in no schema of those that platform functions name', async () => {
  const { id } = await platform.createProject()
  const ref = await platform.refOf(id)
  const open = await platform.asSuperuser(ref, session =>
    session.rows(
      raw(`select nspname from pg_namespace
            where nspname in ('platform', 'auth', 'storage', 'realtime', 'pg_catalog')
              and exists (select from pg_roles r where r.rolname ~ '^${ref}_'
                             and has_schema_privilege(r.rolname, pg_namespace.oid, 'create'))`),
    ),
  )
  assert.deepEqual(open, [])
})

test('definer functions: the tenant can create no extension in a schema in which it can create nothing', async () => {
  const { id, service_role_key: token } = await platform.createProject()
  const create = async (schema: string) =>
    platform.call('POST', `/v1/rest/${id}/rpc/exec_sql`, {
      token,
      body: { sql: `create extension citext schema ${schema}; drop extension citext` },
    })
  for (const schema of ['platform', 'auth', 'storage', 'realtime', 'pg_catalog', 'information_schema']) {
    const { status, body } = await create(schema)
    assert.equal(status, 403, `${schema}: ${JSON.stringify(body)}`)
    assert.match(body.message, /belongs to the platform/)
  }
  for (const schema of ['extensions', 'public', 'pgmq']) assert.equal((await create(schema)).status, 200)
})
