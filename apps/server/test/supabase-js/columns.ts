// Items of `select`: columns, aliases, casts, JSON paths, aggregates and related rows.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Stage } from './stage.ts'

export function columnTests(stage: () => Stage): void {
  test('select without columns returns all columns', async () => {
    const { data, error, status, statusText } = await stage()
      .anon.from('authors')
      .select()
      .order('id')
      .limit(1)
    assert.deepEqual(data, [{ id: 1, name: 'Ursula', born: '1929-10-21' }])
    assert.deepEqual([error, status, statusText], [null, 200, 'OK'])
  })

  test('select supports columns, aliases, casts and JSON paths', async () => {
    const { data } = await stage()
      .anon.from('books')
      .select(
        'id, book:title, pages::text, meta->>series, awards:meta->stats->awards, first:meta->formats->0',
      )
      .eq('id', 1)
    assert.deepEqual(data, [
      { id: 1, book: 'The Dispossessed', pages: '387', series: 'Hainish', awards: 3, first: 'paper' },
    ])
  })

  test('numbers, arrays, ranges and JSON are returned unchanged', async () => {
    const { data } = await stage()
      .anon.from('books')
      .select('price, tags, on_sale, meta, in_print')
      .eq('id', 2)
    assert.deepEqual(data, [
      {
        price: 9.99,
        tags: ['scifi', 'gender'],
        on_sale: '[20,30)',
        meta: { series: 'Hainish', stats: { awards: 2 } },
        in_print: true,
      },
    ])
  })

  test('select embeds related rows in both directions, nested, counted and spread', async () => {
    const { anon } = stage()
    const book = await anon.from('books').select('id, authors(name, books(id))').eq('id', 3)
    assert.deepEqual(book.data, [{ id: 3, authors: { name: 'Stanislaw', books: [{ id: 3 }, { id: 4 }] } }])
    const authors = await anon.from('authors').select('name, books(count)').order('id')
    assert.deepEqual(authors.data, [
      { name: 'Ursula', books: [{ count: 2 }] },
      { name: 'Stanislaw', books: [{ count: 2 }] },
      { name: 'Octavia', books: [{ count: 1 }] },
    ])
    const spread = await anon.from('books').select('id, ...authors(author:name)').gte('id', 5).order('id')
    assert.deepEqual(spread.data, [
      { id: 5, author: 'Octavia' },
      { id: 6, author: null },
    ])
    const hinted = await anon.from('books').select('id, writer:authors!author_id(id)').eq('id', 6)
    assert.deepEqual(hinted.data, [{ id: 6, writer: null }])
  })

  test('select supports aggregates', async () => {
    const { data } = await stage()
      .anon.from('books')
      .select('author_id, pages.sum(), longest:pages.max(), count()')
      .eq('author_id', 1)
    assert.deepEqual(data, [{ author_id: 1, sum: 691, longest: 387, count: 2 }])
  })

  test('unknown columns, tables and relationships are errors, with a hint for columns and tables', async () => {
    const { anon } = stage()
    const column = await anon.from('books').select('id, titel')
    assert.deepEqual([column.status, column.error?.code], [400, '42703'])
    assert.match(`${column.error?.message} ${column.error?.hint}`, /titel.*title/s)
    const table = await anon.from('bokos').select()
    assert.deepEqual([table.status, table.error?.code], [404, 'PGRST205'])
    assert.match(table.error?.hint ?? '', /books/)
    const relationship = await anon.from('books').select('id, notes(id)')
    assert.deepEqual([relationship.status, relationship.error?.code], [400, 'PGRST200'])
  })
}
