// Giving a copied database to a branch: names with a dollar sign, and a number of rights that is too large.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { raw, sql } from '#src/kernel/postgres/sql.ts'
import { adoptDatabase, NotAdoptable } from '#src/tenancy/adopt-database.ts'
import { anyHoldMs, branchesOf } from './branch-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform.stop())

const rightsOf = (project: Project) =>
  project.look<{ rights: string }>(sql`
    select concat_ws(' ', c.relname, part.name, e.privilege_type, e.is_grantable) as rights
      from pg_class c
           cross join lateral (select null as name, c.relacl as acl union all
             select attname, attacl from pg_attribute where attrelid = c.oid and attacl is not null) part
           cross join aclexplode(part.acl) e
     where c.relnamespace = 'public'::regnamespace and e.grantee = ${`${project.ref}_api`}::regrole order by 1`)

test('branch adoption: tables and columns may have a dollar sign in their names', async () => {
  const parent = await Project.create(platform)
  await parent.asOwner(session =>
    session.script(`
      create table "a$b" (id int, "c$d" int); create table "$" (id int); create table "$$" ("$&" int);
      grant select on "a$b", "$" to ${parent.ref}_api with grant option; grant update ("c$d") on "a$b" to ${parent.ref}_api;
      grant insert ("$&") on "$$" to ${parent.ref}_api`),
  )
  const branches = branchesOf(platform, parent.id)
  const { id } = await branches.create({ name: 'copied' })
  assert.notEqual((await branches.read('copied')).method, 'logical')
  const branch = new Project(platform, id, await platform.refOf(id))
  const rights = await rightsOf(parent)
  assert.equal(rights.length, 4)
  assert.deepEqual(await rightsOf(branch), rights)
})

test('branch adoption: too many rights, default privileges or policies are counted first, and copied as objects', async () => {
  const [project, other] = [await Project.create(platform), await Project.create(platform)]
  const adopt = () => adoptDatabase(platform.address, project.ref, { from: project.ref, to: other.ref })
  const login = `${project.ref}_api`
  const columns = Array.from({ length: 1500 }, (_, place) => `c${place}`)
  const cases = [
    [
      [0, 1, 2, 3]
        .map(
          place => `create table wide${place} (${columns.map(name => `${name} int`).join(', ')});
                       grant select (${columns.join(', ')}) on wide${place} to ${login}`,
        )
        .join(';'),
      'drop table wide0, wide1, wide2, wide3',
    ],
    [
      `create table guarded (id int); create policy many on guarded to ${Array(6000).fill(login).join(', ')}`,
      'drop table guarded',
    ],
  ] as const
  for (const [create, drop] of cases) {
    await project.asOwner(session => session.script(create))
    await assert.rejects(adopt(), (error: unknown) => {
      assert.ok(error instanceof NotAdoptable, String(error))
      assert.match(error.message, /\d{4} rights, which is too many/)
      return true
    })
    // Nothing has changed.
    await project.asOwner(session => session.script(drop))
  }
  const owner = await project.look<{ name: string }>(
    raw(`select nspowner::regrole::text as name from pg_namespace where nspname = 'public'`),
  )
  assert.deepEqual(owner, [{ name: `${project.ref}_owner` }])
})
