import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import { readFacts } from './catalog-facts.ts'
import { catalogFrom } from './catalog-from.ts'
import type { Field, RowsQuery, SelectItem, Test } from './items.ts'
import { sourceOf } from './level.ts'
import { findRelation, planRows } from './plan.ts'
import { type Problem, QueryError } from './problem.ts'
import { readSql } from './read-sql.ts'
import { planWrite } from './write-plan.ts'
import { writeSql } from './write-sql.ts'

const facts: [kind: string, value: unknown][] = [
  ['version', 7],
  ['relation', { oid: 1, schema: 'public', name: 'posts', kind: 'r', type: 101 }],
  ['relation', { oid: 2, schema: 'public', name: 'authors', kind: 'r', type: 102 }],
  [
    'columns',
    [
      [1, 1, 'id', 'integer', 23, false, null],
      [1, 2, 'title', 'text', 25, false, null],
      [1, 3, 'author', 'integer', 23, false, null],
      [1, 4, 'data', 'jsonb', 3802, false, null],
    ],
  ],
  [
    'columns',
    [
      [2, 1, 'id', 'integer', 23, false, null],
      [2, 2, 'name', 'text', 25, false, null],
    ],
  ],
  ['key', [1, true, [1]]],
  ['foreignKey', ['posts_author', 1, [3], 2, [1]]],
]
const cells = facts.map(row => row.map((cell, at) => Buffer.from(at ? JSON.stringify(cell) : String(cell))))
const catalog = atOnce(catalogFrom(atOnce(readFacts(cells)), ['public']))
const posts = findRelation(catalog, 'public', 'posts')

const column = (name: string): Field => ({ column: name, path: [] })
const field = (name: string): SelectItem => ({ kind: 'field', field: column(name) })
const equal = (name: string, slot: number): Test => ({
  kind: 'test',
  field: column(name),
  isNegated: false,
  operator: 'eq',
  slot,
})
const query = (select: SelectItem[], more: Partial<RowsQuery> = {}): RowsQuery => ({
  select,
  where: [],
  order: [],
  ...more,
})
const embed = (relation: string, rows: RowsQuery): SelectItem => ({
  kind: 'embed',
  relation,
  isInner: false,
  isSpread: false,
  query: rows,
})
const plan = (rows: RowsQuery) => planRows(catalog, sourceOf(posts), rows)
const statementOf = (rows: RowsQuery) =>
  readSql(catalog, plan(rows), { kind: 'array', stripsNulls: false }, 'never')

test('plan: a query over embedded rows becomes one statement with its values as parameters', () => {
  const authors = query([field('name')], { where: [equal('name', 2)], limit: 1 })
  const { sql, writer } = statementOf(
    query([field('title'), embed('authors', authors)], {
      where: [equal('id', 0)],
      order: [{ field: column('title'), isDescending: true }],
      limit: 10,
      offset: 1,
    }),
  )
  assert.match(sql, /from "public"\."authors" t2 where t2\."id" = t0\."author" and t2\."name" = \$2 limit 1/)
  assert.match(
    sql,
    /from "public"\."posts" t0 where t0\."id" = \$1 order by t0\."title" desc limit 10 offset \$3/,
  )
  assert.deepEqual(writer.parameters, [0, 2, 1])
})

test('plan: names in items are escaped and never become SQL', () => {
  const name = 'x" ; drop'
  const path = [{ isText: true, key: "k'" }]
  const { sql } = statementOf(
    query([{ kind: 'field', alias: name, field: { column: 'data', path }, cast: name }]),
  )
  assert.match(sql, /cast\(\(t0\."data" ->> 'k'''\) as "x"" ; drop"\) as "x"" ; drop"/)
})

test('plan: a written row is planned from column names', () => {
  const payload = { columns: [{ name: 'title', isSparse: false }], isArray: false, isText: false, slot: 3 }
  const write = planWrite(posts, { kind: 'insert', payload, conflict: { merges: true } })
  const { sql, writer } = writeSql(catalog, posts, plan(query([field('id')])), write, {
    form: { kind: 'array', stripsNulls: false },
    settings: ['some.setting'],
    isOneRow: false,
  })
  assert.match(
    sql,
    /insert into "public"\."posts" as t0 \("title"\) select s\."title" from pg_catalog\.json_to_record\(\$1::json\)/,
  )
  assert.match(sql, /on conflict \("id"\) do update/)
  assert.match(sql, /current_setting\('some\.setting', true\)/)
  assert.deepEqual(writer.parameters, [3])
})

const problems: [what: string, work: () => unknown, problem: Partial<Problem>][] = [
  [
    'an unknown column',
    () => plan(query([field('titel')])),
    { kind: 'unknown column', relation: 'posts', name: 'titel', nearest: 'title' },
  ],
  [
    'an unknown column of an embedded relation',
    () => plan(query([embed('authors', query([field('x')]))])),
    { kind: 'unknown column', relation: 'authors', name: 'x' },
  ],
  [
    'a relation without a relationship',
    () => plan(query([embed('tags', query([field('x')]))])),
    { kind: 'no relationship', name: 'tags' },
  ],
  [
    'an order by a relation that is not embedded',
    () =>
      plan(
        query([field('id')], { order: [{ field: column('id'), relation: 'authors', isDescending: false }] }),
      ),
    { kind: 'unknown embed', name: 'authors' },
  ],
  [
    'an unknown relation',
    () => findRelation(catalog, 'public', 'post'),
    { kind: 'unknown relation', schema: 'public', name: 'post', nearest: 'posts' },
  ],
  [
    'an unknown column in a payload',
    () =>
      planWrite(posts, {
        kind: 'update',
        payload: { columns: [{ name: 'x', isSparse: false }], isArray: false, isText: false, slot: 0 },
      }),
    { kind: 'unknown payload column', relation: 'posts', name: 'x' },
  ],
  [
    'an insert that merges by a key the relation does not have',
    () =>
      planWrite(findRelation(catalog, 'public', 'authors'), {
        kind: 'insert',
        payload: { columns: [], isArray: false, isText: false, slot: 0 },
        conflict: { merges: true },
      }),
    { kind: 'no conflict target', relation: 'authors' },
  ],
  [
    'more outputs than the limit, over all levels',
    () =>
      plan(
        query([...Array<SelectItem>(1998).fill(field('id')), embed('authors', query([{ kind: 'star' }]))]),
      ),
    { kind: 'too many outputs', max: 2000 },
  ],
]
for (const [what, work, problem] of problems)
  test(`plan: ${what} is reported as data`, () =>
    assert.throws(work, error => {
      assert.ok(error instanceof QueryError)
      assert.partialDeepStrictEqual(error.problem, problem)
      return true
    }))
