// Plans made from items, run for a caller without a request of the row API.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { answerFrom } from '#src/query/answer-sql.ts'
import type { Catalog } from '#src/query/catalog.ts'
import type { RowsQuery } from '#src/query/items.ts'
import { sourceOf } from '#src/query/level.ts'
import { findRelation, planRows } from '#src/query/plan.ts'
import { plannedStatement } from '#src/query/planned-statement.ts'
import { QueryError } from '#src/query/problem.ts'
import { readSql } from '#src/query/read-sql.ts'
import { openQueryEngine, type Run, type RunFor } from '#src/query/run.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let ref: string
let run: Run
let runFor: RunFor

before(async () => {
  platform = await startPlatform()
  const { id } = await platform.createProject()
  ref = await platform.refOf(id)
  await script(`
    create table notes (id int primary key, owner text, path text default current_setting('request.path', true));
    create policy own on notes for select using (owner = auth.jwt() ->> 'name');
    insert into notes (id, owner) values (1, 'ada'), (2, 'bob'), (3, 'ada');
    create function seen(notes) returns text stable language sql as $$ select current_setting('request.path', true) $$;
    grant select on notes to authenticated`)
  const { databases, directory } = platform.app
  run = openQueryEngine(databases).run
  const tenant = (await directory.find(id))!
  const claims = JSON.stringify({ role: 'authenticated', name: 'ada' })
  runFor = {
    caller: { tenant, role: 'authenticated', claims, userId: '', sessionId: '' },
    facts: { method: 'POST', path: '/elsewhere', headers: '{}', isReadOnly: true },
  }
})
after(() => platform.stop())

const script = (text: string) => platform.app.databases.asOwner({ ref }, session => session.script(text))

const column = (name: string) => ({ kind: 'field', field: { column: name, path: [] } }) as const

let plans = 0
const planFor = (query: RowsQuery) => (catalog: Catalog) => {
  plans++
  const level = planRows(catalog, sourceOf(findRelation(catalog, 'public', 'notes')), query)
  return plannedStatement(readSql(catalog, level, { kind: 'array', stripsNulls: false }, 'always'), true)
}

async function ask(query: RowsQuery, values: string[]) {
  const { rows } = await run(runFor, JSON.stringify(query), planFor(query), values)
  const { text, count, total } = answerFrom(rows[0]!)
  return { rows: JSON.parse(text!.toString()), count, total }
}

const beyond: RowsQuery = {
  select: [column('id'), column('seen')],
  where: [{ kind: 'test', field: { column: 'id', path: [] }, isNegated: false, operator: 'gte', slot: 0 }],
  order: [{ field: { column: 'id', path: [] }, isDescending: true }],
  limit: 1,
}

test('run: a plan made from items runs with the claims and facts it is given', async () => {
  assert.deepEqual(await ask(beyond, ['1']), {
    rows: [{ id: 3, seen: '/elsewhere' }],
    count: 1,
    total: 2,
  })
})

test('run: queries with the same key share one plan', async () => {
  await ask(beyond, ['1'])
  plans = 0
  assert.equal((await ask(beyond, ['3'])).total, 1)
  assert.equal((await ask(beyond, ['4'])).total, 0)
  assert.equal(plans, 0)
})

test('run: a query is planned again when the schema has changed', async () => {
  const all: RowsQuery = { select: [{ kind: 'star' }], where: [], order: [], limit: 1 }
  await ask(all, [])
  await script('alter table notes add column added int default 5')
  assert.equal((await ask(all, [])).rows[0].added, 5)
  await script('alter table notes rename column added to renamed')
  const renamed = await ask({ ...all, select: [column('renamed')] }, [])
  assert.deepEqual(renamed.rows, [{ renamed: 5 }])
})

test('run: a query that does not fit the schema fails with a problem', async () => {
  const unknown = ask({ ...beyond, select: [column('nothing')] }, ['1'])
  await assert.rejects(unknown, error => {
    assert.ok(error instanceof QueryError)
    assert.equal(error.problem.kind, 'unknown column')
    return true
  })
})
