// Every filter method, with the ids of the books that it matches.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PostgrestFilterBuilder } from '@supabase/postgrest-js'
import type { Stage } from './stage.ts'

type Query = PostgrestFilterBuilder<any, any, any, any[], any, any, any>
type Filter = [what: string, ask: (query: Query) => Query, ids: number[]]

const comma = 'Robots, kings and (un)happy ends'

const filters: readonly Filter[] = [
  ['eq', q => q.eq('pages', 204), [3]],
  ['eq with text that looks like grammar', q => q.eq('summary', comma), [4]],
  ['eq on a JSON path', q => q.eq('meta->>series', 'Hainish'), [1, 2]],
  ['eq on a longer JSON path', q => q.eq('meta->stats->>awards', '2'), [2]],
  ['eq twice on one column', q => q.eq('author_id', 1).eq('author_id', 2), []],
  ['neq', q => q.neq('author_id', 1), [3, 4, 5]],
  ['gt', q => q.gt('pages', 304), [1]],
  ['gt on JSON', q => q.gt('meta->stats->awards', 2), [1]],
  ['gte', q => q.gte('pages', 304), [1, 2]],
  ['lt', q => q.lt('pages', 204), [6]],
  ['lte', q => q.lte('pages', 204), [3, 6]],
  ['like', q => q.like('title', 'The %'), [1, 2, 4]],
  ['like with stars', q => q.like('title', 'The *'), [1, 2, 4]],
  ['like minds case', q => q.like('title', 'the %'), []],
  ['likeAllOf', q => q.likeAllOf('title', ['The%', '%ed']), [1]],
  ['likeAnyOf', q => q.likeAnyOf('title', ['Sol%', 'Kin%', 'kin%']), [3, 5]],
  ['ilike', q => q.ilike('title', '%LEFT%'), [2]],
  ['ilikeAllOf', q => q.ilikeAllOf('title', ['%THE%', '%dark%']), [2]],
  ['ilikeAnyOf', q => q.ilikeAnyOf('title', ['sol%', 'KIN%']), [3, 5]],
  ['regexMatch', q => q.regexMatch('title', '^The [A-D]'), [1, 4]],
  ['regexMatch minds case', q => q.regexMatch('title', '^the'), []],
  ['regexIMatch', q => q.regexIMatch('title', '^the [a-d]'), [1, 4]],
  ['is null', q => q.is('price', null), [4]],
  ['is true', q => q.is('in_print', true), [1, 2, 5, 6]],
  ['is false', q => q.is('in_print', false), [3]],
  ['isDistinct', q => q.isDistinct('in_print', true), [3, 4]],
  ['in', q => q.in('id', [1, 3, 99]), [1, 3]],
  ['in with commas and parentheses', q => q.in('summary', [comma, 'A planet thinks']), [3, 4]],
  ['in nothing', q => q.in('id', []), []],
  ['notIn', q => q.notIn('id', [1, 2, 3]), [4, 5, 6]],
  ['notIn with commas and parentheses', q => q.notIn('summary', [comma]), [1, 3, 5]],
  ['notIn nothing', q => q.notIn('id', []), [1, 2, 3, 4, 5, 6]],
  ['contains of an array', q => q.contains('tags', ['scifi', 'ocean']), [3]],
  ['contains of an object', q => q.contains('meta', { series: 'Hainish' }), [1, 2]],
  ['contains of a range', q => q.contains('on_sale', '[12,13)'), [1]],
  ['containedBy of an array', q => q.containedBy('tags', ['scifi', 'utopia', 'ocean']), [1, 3, 6]],
  [
    'containedBy of an object',
    q => q.containedBy('meta', { series: 'Hainish', stats: { awards: 2 } }),
    [2, 6],
  ],
  ['containedBy of a range', q => q.containedBy('on_sale', '[0,12)'), [3, 4]],
  ['rangeGt', q => q.rangeGt('on_sale', '[1,12)'), [2, 6]],
  ['rangeGte', q => q.rangeGte('on_sale', '[10,15)'), [1, 2, 6]],
  ['rangeLt', q => q.rangeLt('on_sale', '[10,15)'), [3, 4]],
  ['rangeLte', q => q.rangeLte('on_sale', '[10,20)'), [1, 3, 4]],
  ['rangeAdjacent', q => q.rangeAdjacent('on_sale', '[10,20)'), [2, 4]],
  ['overlaps of an array', q => q.overlaps('tags', ['ocean', 'humour']), [3, 4]],
  ['overlaps of a range', q => q.overlaps('on_sale', '[4,6)'), [3, 4]],
  ['textSearch', q => q.textSearch('words', 'hand & dark'), [2]],
  [
    'textSearch with a configuration',
    q => q.textSearch('words', 'dispossessing', { config: 'english' }),
    [1],
  ],
  [
    'textSearch of another configuration',
    q => q.textSearch('words', 'dispossessing', { config: 'simple' }),
    [],
  ],
  ['textSearch plain', q => q.textSearch('words', 'hand left', { type: 'plain', config: 'english' }), [2]],
  ['textSearch phrase', q => q.textSearch('words', 'left hand', { type: 'phrase', config: 'english' }), [2]],
  ['textSearch phrase out of order', q => q.textSearch('words', 'hand left', { type: 'phrase' }), []],
  [
    'textSearch websearch',
    q => q.textSearch('words', '"left hand" or solaris -kindred', { type: 'websearch', config: 'english' }),
    [2, 3],
  ],
  ['textSearch in a text column', q => q.textSearch('title', 'kindred', { config: 'english' }), [5]],
  ['match', q => q.match({ author_id: 1, in_print: true, pages: undefined }), [1, 2]],
  ['not', q => q.not('author_id', 'eq', 1), [3, 4, 5]],
  ['not null', q => q.not('price', 'is', null), [1, 2, 3, 5, 6]],
  ['not in', q => q.not('id', 'in', '(1,2)'), [3, 4, 5, 6]],
  ['not contains', q => q.not('tags', 'cs', '{scifi}'), [5, 6]],
  ['or', q => q.or('id.eq.1,title.eq.Kindred'), [1, 5]],
  ['or beside another filter', q => q.or('id.eq.1,id.eq.5').gt('pages', 300), [1]],
  ['or with and in it', q => q.or('and(author_id.eq.2,pages.gt.250),id.eq.6'), [4, 6]],
  ['or with not in it', q => q.or('not.and(id.gt.1,id.lt.6),price.is.null'), [1, 4, 6]],
  ['or with a quoted value', q => q.or(`summary.eq."${comma}",id.eq.1`), [1, 4]],
  ['or with a list and an array', q => q.or('id.in.(2,3),tags.cs.{history}'), [2, 3, 5]],
  ['filter', q => q.filter('title', 'like', 'Sol%'), [3]],
  ['filter with a list', q => q.filter('id', 'in', '("2","4")'), [2, 4]],
  ['filter with a negated operator', q => q.filter('id', 'not.in', '(1,2,3)'), [4, 5, 6]],
  ['filter with a quantifier', q => q.filter('pages', 'gte(any)', '{304,999}'), [1, 2]],
]

export function filterTests(stage: () => Stage): void {
  for (const [what, ask, ids] of filters)
    test(`filter: ${what}`, async () => {
      const { data, error, status } = await ask(stage().anon.from('books').select('id')).order('id')
      assert.equal(error, null)
      assert.equal(status, 200)
      assert.deepEqual(
        data.map(({ id }) => id),
        ids,
      )
    })

  test('a filter on an embedded table selects its rows and, with !inner, the parent rows', async () => {
    const { anon } = stage()
    const shaped = await anon.from('authors').select('id, books(id)').eq('books.in_print', true).order('id')
    assert.deepEqual(shaped.data, [
      { id: 1, books: [{ id: 1 }, { id: 2 }] },
      { id: 2, books: [] },
      { id: 3, books: [{ id: 5 }] },
    ])
    const inner = await anon
      .from('books')
      .select('id, author:authors!inner(name)')
      .filter('author.name', 'eq', 'Stanislaw')
      .order('id')
    assert.deepEqual(inner.data, [
      { id: 3, author: { name: 'Stanislaw' } },
      { id: 4, author: { name: 'Stanislaw' } },
    ])
  })

  test('or applies to a referenced table, with the new and the old option name', async () => {
    for (const option of ['referencedTable', 'foreignTable']) {
      const { data } = await stage()
        .anon.from('authors')
        .select('id, books(id)')
        .or('id.eq.1,id.eq.3', { [option]: 'books' })
        .order('id')
      assert.deepEqual(data, [
        { id: 1, books: [{ id: 1 }] },
        { id: 2, books: [{ id: 3 }] },
        { id: 3, books: [] },
      ])
    }
  })

  test('an invalid filter is an error with a code and a message', async () => {
    const { anon } = stage()
    const books = () => anon.from('books').select('id')
    const wrong: [string, Query, number, string][] = [
      ['an unknown operator', books().filter('id', 'equals', 1), 400, 'PGRST100'],
      ['an unknown column', books().eq('isbn', 1), 400, '42703'],
      ['a value of another type', books().eq('pages', 'many'), 400, '22P02'],
      ['is with something else', books().filter('id', 'is', 'zero'), 400, 'PGRST100'],
      ['a group that does not close', books().filter('or', '(id', 'eq.1'), 400, 'PGRST100'],
    ]
    for (const [what, query, status, code] of wrong) {
      const { data, error, status: answered } = await query
      assert.equal(data, null, what)
      assert.deepEqual([answered, error?.code], [status, code], `${what}: ${JSON.stringify(error)}`)
      assert.notEqual(error?.message, '', what)
    }
  })
}
