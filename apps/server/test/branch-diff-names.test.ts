// The diff of a branch whose names have SQL in them: nothing of a name runs in the parent, and no change is missed.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql } from '#src/kernel/postgres/sql.ts'
import { readSchema } from '#src/services/db/dump/schema.ts'
import { anyHoldMs, branchesOf } from './branch-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { Project } from './owned-project.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform({ branchHoldMs: anyHoldMs })
})
after(() => platform.stop())

async function push(project: Project, version: string, text: string): Promise<void> {
  const { status, body } = await project.push({ version, sql: text })
  assert.equal(status, 200, `${body.error?.message}\n\n${text}`)
}

async function branched(start: string, change: string): Promise<{ parent: Project; script: string }> {
  const parent = await Project.create(platform)
  await push(parent, '1', start)
  const branches = branchesOf(platform, parent.id)
  const { id } = await branches.create({ name: 'change' })
  await push(new Project(platform, id, await platform.refOf(id)), '2', change)
  const params = { id: parent.id, slug: 'change' }
  return { parent, script: (await branches.api.diff({ params })).sql }
}

/** A name that ends a comment. */
const hostile = (name: string, end = '\n') => `"${name}${end}drop schema trapped cascade; --"`

test('branch diff: a line break in a name does not end the comment that it is in', async () => {
  const { parent, script } = await branched(
    `create schema trapped; create table trapped.kept (id int);
     create table ${hostile('t')} (a int, b int)`,
    `create collation public.${hostile('c')} from "C"; create collation public.${hostile('r', '\r')} from "C";
     create type public.${hostile('o')} as enum ();
     create function same(${hostile('o')}, ${hostile('o')}) returns boolean language sql as 'select true';
     create operator public.=== (leftarg = public.${hostile('o')}, rightarg = public.${hostile('o')}, function = same);
     create text search dictionary public.${hostile('d')} (template = simple);
     create text search configuration public.${hostile('s')} (parser = default);
     alter table ${hostile('t')} drop column a; alter table ${hostile('t')} add column a int`,
  )
  assert.equal([...script.matchAll(/^-- Not in here, .*\\u000[ad]drop schema/gm)].length, 6, script)
  await push(parent, '3', script)
  assert.deepEqual(await parent.look(sql`select from trapped.kept`), [])

  // What a pull writes is recorded as applied, and runs in every other project.
  const pulled = await parent.manage('GET', '/db/schema')
  assert.doesNotMatch(pulled.body.sql, /^-- .*[\r\n]drop schema/m)
})

test('branch diff: a composite type whose name looks like an enum is compared as what it is', async () => {
  const { parent, script } = await branched(
    `create type "x as enum" as (a int); create type pair as (a "x as enum");
     create type "y as (a int)" as enum ('o'); create type "n\nn" as enum ('o')`,
    `drop type pair; drop type "x as enum"; create type "x as enum" as (a int, b text); create type pair as (a "x as enum", b int);
     alter type "y as (a int)" add value 'p'; alter type "n\nn" add value 'p'`,
  )
  await push(parent, '3', script)
  const changed = sql`
    select t.typname as name, array(select attname::text from pg_attribute a where a.attrelid = t.typrelid order by attnum) as columns,
           array(select enumlabel::text from pg_enum e where e.enumtypid = t.oid order by enumsortorder) as labels
      from pg_type t where typnamespace = 'public'::regnamespace and typtype in ('c', 'e') order by 1`
  assert.deepEqual(await parent.look(changed), [
    { name: 'n\nn', columns: [], labels: ['o', 'p'] },
    { name: 'pair', columns: ['a', 'b'], labels: [] },
    { name: 'x as enum', columns: ['a', 'b'], labels: [] },
    { name: 'y as (a int)', columns: [], labels: ['o', 'p'] },
  ])
})

test('branch diff: a schema with too many objects or dependencies is refused', async () => {
  const project = await Project.create(platform)
  await push(
    project,
    '1',
    `create table a (id int); create table b (id int); create view c as select a.id from a, b`,
  )
  const read = (definitions: number, dependencies: number) =>
    project.asOwner(async session => {
      await session.script('begin isolation level repeatable read read only')
      const { definitions: found, needs } = await readSchema(session, { definitions, dependencies })
      return { definitions: found.length, dependencies: needs.length }
    })
  const size = await read(50_000, 250_000)
  assert.deepEqual(await read(size.definitions, size.dependencies), size)
  await assert.rejects(read(size.definitions - 1, 250_000), { code: 'dump_too_large' })
  await assert.rejects(read(50_000, size.dependencies - 1), {
    code: 'dump_too_large',
    message: /dependencies between its objects/,
  })
})
