import assert from 'node:assert/strict'
import { test } from 'node:test'
import { namesIn, rowsQuery } from './rows-query.ts'
import { scan, splitQuery } from './scan.ts'

const parametersOf = (query: string) => scan(splitQuery(query)).parameters
const queryOf = (query: string) => rowsQuery(parametersOf(query))
const embedIn = ({ select }: ReturnType<typeof queryOf>, at: number) => {
  const item = select[at]
  assert.ok(item?.kind === 'embed')
  return item.query
}

test('query string: without select, a query shows all columns', () => {
  for (const query of ['', 'select=', 'select=%20'])
    assert.deepEqual(queryOf(query), { select: [{ kind: 'star' }], where: [], order: [] })
})

test('query string: parameters belong to the request or to the embedded relation that their name begins with', () => {
  const query = queryOf(
    'select=id,w:author(id,posts(id))&id=eq.1&w.id=gt.2&w.limit=3&w.posts.order=id.desc&w.posts.offset=4&limit=5',
  )
  const author = embedIn(query, 1)
  const posts = embedIn(author, 1)
  const id = { column: 'id', path: [] }
  assert.deepEqual(query.where, [{ kind: 'test', field: id, isNegated: false, operator: 'eq', slot: 0 }])
  assert.deepEqual(author.where, [{ kind: 'test', field: id, isNegated: false, operator: 'gt', slot: 1 }])
  assert.deepEqual(posts.order, [{ field: id, isDescending: true }])
  assert.deepEqual([query.limit, author.limit, posts.limit], [5, 3, undefined])
  assert.deepEqual([query.offset, author.offset, posts.offset], [undefined, undefined, 2])
})

test('query string: a parameter of a relation that is not embedded is refused', () => {
  for (const query of [
    'posts.id=eq.1',
    'select=a:posts(id)&posts.limit=1',
    'select=posts(id)&posts.x.order=id',
  ])
    assert.throws(() => queryOf(query), { code: 'PGRST108', status: 400 }, query)
})

test('query string: of two embedded relations with the same name, parameters belong to the first', () => {
  const query = queryOf('select=posts(id),posts(title)&posts.limit=1')
  assert.deepEqual([embedIn(query, 0).limit, embedIn(query, 1).limit], [1, undefined])
})

test('query string: columns and on_conflict are lists of distinct names', () => {
  assert.deepEqual(namesIn(parametersOf('columns=a,"b,c",a'), 'columns'), ['a', 'b,c'])
  assert.deepEqual(namesIn(parametersOf('on_conflict='), 'on_conflict'), [])
  assert.equal(namesIn(parametersOf('columns=a'), 'on_conflict'), undefined)
  assert.equal(namesIn(parametersOf('columns='), 'columns'), undefined)
  assert.throws(() => namesIn(parametersOf('columns=a,'), 'columns'), { code: 'PGRST100' })
})
