// Reading rows: columns, counts, order, pages, single rows and other formats.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PostgrestError } from '@supabase/postgrest-js'
import { columnTests } from './columns.ts'
import { formatTests } from './formats.ts'
import type { Stage } from './stage.ts'

const idsOf = (rows: { id: number }[] | null) => rows?.map(({ id }) => id)

export function readingTests(stage: () => Stage): void {
  columnTests(stage)
  formatTests(stage)

  test('counts include the rows that the caller may see, independent of the page', async () => {
    const { anon, service } = stage()
    for (const count of ['exact', 'planned', 'estimated']) {
      const page = await anon.from('books').select('id', { count }).limit(2)
      assert.deepEqual([page.error, page.count, page.data?.length], [null, 6, 2], count)
      const all = await service.from('books').select('id', { count }).gt('id', 5)
      assert.equal(all.error, null)
      assert.equal(all.data?.length, 2)
    }
    assert.equal((await service.from('books').select('id', { count: 'exact' })).count, 7)
    const filtered = await anon.from('books').select('id', { count: 'exact' }).eq('author_id', 1)
    assert.equal(filtered.count, 2)
    const uncounted = await anon.from('books').select('id').limit(2)
    assert.equal(uncounted.count, null)
  })

  test('head returns the count and no rows', async () => {
    const { anon } = stage()
    const answer = await anon.from('books').select('*', { count: 'exact', head: true }).gt('pages', 250)
    assert.deepEqual([answer.error, answer.data, answer.count, answer.status], [null, null, 4, 200])
    const embedded = await anon.from('authors').select('id, books!inner(id)', { count: 'exact', head: true })
    assert.equal(embedded.count, 3)
  })

  test('order supports directions, nulls, several keys, JSON paths and related rows', async () => {
    const books = () => stage().anon.from('books').select('id, author:authors(name)')
    const byPrice = books().order('price')
    assert.deepEqual(idsOf((await byPrice).data), [6, 3, 5, 2, 1, 4])
    assert.deepEqual(idsOf((await books().order('price', { ascending: false })).data), [4, 1, 2, 5, 3, 6])
    assert.deepEqual(
      idsOf((await books().order('price', { ascending: false, nullsFirst: false })).data),
      [1, 2, 5, 3, 6, 4],
    )
    assert.deepEqual(idsOf((await books().order('price', { nullsFirst: true })).data), [4, 6, 3, 5, 2, 1])
    assert.deepEqual(
      idsOf((await books().order('in_print', { nullsFirst: true }).order('id', { ascending: false })).data),
      [4, 3, 6, 5, 2, 1],
    )
    const byAwards = books().order('meta->stats->awards', { ascending: false, nullsFirst: false }).order('id')
    assert.deepEqual(idsOf((await byAwards).data), [1, 2, 3, 4, 5, 6])
    const byAuthor = books().order('author(name)').order('id')
    assert.deepEqual(idsOf((await byAuthor).data), [5, 3, 4, 1, 2, 6])
  })

  test('order, limit and range apply to a referenced table', async () => {
    const { anon } = stage()
    for (const option of ['referencedTable', 'foreignTable']) {
      const of = { [option]: 'books' }
      const authors = () => anon.from('authors').select('id, books(id)').order('id').limit(2)
      const ordered = await authors().order('id', { ascending: false, ...of })
      assert.deepEqual(ordered.data, [
        { id: 1, books: [{ id: 2 }, { id: 1 }] },
        { id: 2, books: [{ id: 4 }, { id: 3 }] },
      ])
      const limited = await authors().order('id', of).limit(1, of)
      assert.deepEqual(limited.data, [
        { id: 1, books: [{ id: 1 }] },
        { id: 2, books: [{ id: 3 }] },
      ])
      const ranged = await authors().order('id', of).range(1, 5, of)
      assert.deepEqual(ranged.data, [
        { id: 1, books: [{ id: 2 }] },
        { id: 2, books: [{ id: 4 }] },
      ])
    }
  })

  test('limit and range return a page, and the count includes all rows', async () => {
    const { anon } = stage()
    const books = () => anon.from('books').select('id', { count: 'exact' }).order('id')
    assert.deepEqual(idsOf((await books().limit(2)).data), [1, 2])
    assert.deepEqual((await books().limit(0)).data, [])
    const page = await books().range(2, 3)
    assert.deepEqual([idsOf(page.data), page.count], [[3, 4], 6])
    const beyond = await books().range(10, 19)
    assert.deepEqual([beyond.error, beyond.data, beyond.count], [null, [], 6])
    const negative = await books().range(-5, 3)
    assert.deepEqual([negative.status, negative.error?.code], [400, 'PGRST103'])
  })

  test('an aborted request ends at once, and the next one works', async () => {
    const { anon } = stage()
    const aborted = await anon.rpc('slow').abortSignal(AbortSignal.timeout(100))
    assert.equal(aborted.data, null)
    assert.match(aborted.error?.message ?? '', /^(Abort|Timeout)Error/)
    const going = anon.from('books').select('id').eq('id', 1).abortSignal(new AbortController().signal)
    assert.deepEqual((await going).data, [{ id: 1 }])
  })

  test('single returns the one row, and is 406 for none or several', async () => {
    const { anon } = stage()
    const books = () => anon.from('books').select('id, title')
    assert.deepEqual((await books().eq('id', 3).single()).data, { id: 3, title: 'Solaris' })
    const none = await books().eq('id', 99).single()
    assert.deepEqual([none.status, none.data, none.error?.code], [406, null, 'PGRST116'])
    assert.match(none.error?.details ?? '', /\b0 rows/)
    const many = await books().single()
    assert.deepEqual([many.status, many.data, many.error?.code], [406, null, 'PGRST116'])
    assert.match(many.error?.details ?? '', /\b6 rows/)
  })

  test('maybeSingle returns the one row, null for none and an error for several', async () => {
    const books = () => stage().anon.from('books').select('id')
    assert.deepEqual((await books().eq('id', 3).maybeSingle()).data, { id: 3 })
    const none = await books().eq('id', 99).maybeSingle()
    assert.deepEqual([none.status, none.data, none.error], [200, null, null])
    const many = await books().maybeSingle()
    assert.deepEqual([many.status, many.error?.code], [406, 'PGRST116'])
  })

  test('throwOnError throws the error, and does not change other results', async () => {
    const { anon } = stage()
    const fine = await anon.from('books').select('id').eq('id', 1).throwOnError()
    assert.deepEqual(fine.data, [{ id: 1 }])
    await assert.rejects(
      async () => anon.from('bocks').select().throwOnError(),
      (error: PostgrestError) => {
        assert.ok(error instanceof PostgrestError)
        assert.equal(error.code, 'PGRST205')
        assert.match(error.hint, /books/)
        assert.equal(typeof error.details, 'string')
        assert.equal(error.toJSON().code, 'PGRST205')
        return true
      },
    )
    await assert.rejects(async () => anon.from('books').select().single().throwOnError(), {
      code: 'PGRST116',
    })
  })

  test('an error has the fields of both error formats', async () => {
    const { error } = await stage().anon.from('bocks').select()
    const { code, message, details, hint, ...rest } = error as unknown as Record<string, unknown>
    assert.equal(code, 'PGRST205')
    assert.deepEqual(rest, { error: message, statusCode: 404 })
    for (const text of [message, details, hint]) assert.equal(typeof text, 'string')
  })

  test('returns, overrideTypes and retry do not change the result, and setHeader sets a Range', async () => {
    const { anon } = stage()
    const books = () => anon.from('books').select('id').order('id')
    assert.deepEqual((await books().limit(1).returns<{ id: number }[]>()).data, [{ id: 1 }])
    assert.deepEqual((await books().limit(1).overrideTypes<{ id: number }[]>()).data, [{ id: 1 }])
    assert.deepEqual((await books().limit(1).retry(false)).data, [{ id: 1 }])
    const window = await books().setHeader('Range-Unit', 'items').setHeader('Range', '1-2')
    assert.deepEqual(idsOf(window.data), [2, 3])
    const options = { retry: false, urlLengthLimit: 100 }
    assert.deepEqual((await anon.from('books', options).select('id').eq('id', 1)).data, [{ id: 1 }])
  })
}
