// rpc: by POST, GET and HEAD, with every kind of result, and as a source of rows.
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import type { Stage } from './stage.ts'

export function functionTests(stage: () => Stage): void {
  describe('rpc', () => {
    beforeEach(() => stage().clearNotes())
    const rpc = (...given: Parameters<Stage['anon']['rpc']>) => stage().anon.rpc(...given)

    test('returns a scalar, an object, rows or nothing, depending on the function', async () => {
      const sum = await rpc('add', { a: 2, b: 3 })
      assert.deepEqual([sum.data, sum.error, sum.status], [5, null, 200])
      const book = await rpc('one_book', { wanted: 3 })
      assert.equal(book.data?.title, 'Solaris')
      const books = await rpc('books_by', { author: 'Ursula' })
      assert.deepEqual(books.data.map(({ id }: { id: number }) => id).sort(), [1, 2])
      const table = await rpc('shelf').order('author')
      assert.deepEqual(table.data, [
        { author: 'Octavia', books: 1 },
        { author: 'Stanislaw', books: 2 },
        { author: 'Ursula', books: 2 },
      ])
      const nothing = await rpc('note', { said: 'hello' })
      assert.deepEqual([nothing.data, nothing.error, nothing.status], [null, null, 204])
      assert.equal((await stage().anon.from('notes').select().eq('title', 'hello')).data?.length, 1)
      const payload = { deep: [1, { a: null }], text: 'ü' }
      assert.deepEqual((await rpc('echo', { payload })).data, payload)
    })

    test('get sends the arguments in the URL, including arrays', async () => {
      assert.equal((await rpc('add', { a: 2, b: 3 }, { get: true })).data, 5)
      assert.equal((await rpc('pages_of', { ids: [1, 2] }, { get: true })).data, 691)
      assert.equal((await rpc('pages_of', { ids: [1, 2] })).data, 691)
    })

    test('get cannot write', async () => {
      const { status, error } = await rpc('note', { said: 'hello' }, { get: true })
      assert.deepEqual([status, error?.code], [405, '25006'])
      assert.deepEqual((await stage().anon.from('notes').select()).data, [])
    })

    test('head returns only the count, also with an object as argument', async () => {
      const head = await rpc('books_by', { author: 'Ursula' }, { head: true, count: 'exact' })
      assert.deepEqual([head.data, head.error, head.count], [null, null, 2])
      const object = await rpc('echo', { payload: { a: 1 } }, { head: true })
      assert.deepEqual([object.data, object.error], [null, null])
    })

    test('count is the number of all rows, independent of the page', async () => {
      for (const get of [false, true]) {
        const answer = await rpc('books_by', { author: 'Ursula' }, { get, count: 'exact' }).limit(1)
        assert.deepEqual([answer.count, answer.data.length], [2, 1])
      }
    })

    test('rows of a function can be filtered, ordered, limited, selected and embedded like those of a table', async () => {
      const books = () => rpc('books_by', { author: 'Ursula' })
      const { data } = await books().select('id, authors(name)').order('id', { ascending: false }).limit(1)
      assert.deepEqual(data, [{ id: 2, authors: { name: 'Ursula' } }])
      assert.deepEqual((await books().select('id').gt('pages', 310)).data, [{ id: 1 }])
      assert.deepEqual((await books().select('id').eq('id', 2).single()).data, { id: 2 })
      assert.deepEqual((await books().select('id').eq('id', 9).maybeSingle()).data, null)
      assert.deepEqual((await books().select('id').order('id').range(1, 1)).data, [{ id: 2 }])
      const csv = await books().select('id,title').eq('id', 1).csv()
      assert.deepEqual(csv.data?.trimEnd().split('\n'), ['id,title', '1,The Dispossessed'])
      assert.deepEqual((await books().select('id, summary').eq('id', 2).stripNulls()).data, [{ id: 2 }])
    })

    test('maxAffected and rollback prevent writes of a function', async () => {
      const titles = async () =>
        (await stage().anon.from('notes').select('title').order('title')).data?.length
      await stage()
        .anon.from('notes')
        .insert([{ title: 'x1' }, { title: 'x2' }])
        .throwOnError()
      const tooFar = await rpc('remove_notes', { prefix: 'x' }).maxAffected(1)
      assert.deepEqual([tooFar.status, tooFar.error?.code], [400, 'PGRST124'])
      assert.equal(await titles(), 2)
      const undone = await rpc('remove_notes', { prefix: 'x' }).rollback()
      assert.equal(undone.data.length, 2)
      assert.equal(await titles(), 2)
      const done = await rpc('remove_notes', { prefix: 'x' }).maxAffected(2)
      assert.equal(done.data.length, 2)
      assert.equal(await titles(), 0)
    })

    test('an error raised by the function has its code, message, hint and details', async () => {
      const { status, error } = await rpc('refuse')
      const { code, message, hint, details } = error!
      assert.equal(status, 400)
      assert.deepEqual(
        { code, message, hint, details },
        {
          code: 'P0001',
          message: 'not today',
          hint: 'try tomorrow',
          details: 'closed',
        },
      )
    })

    test('an unknown function or argument is 404, with a hint for a similar name', async () => {
      const unknown = await rpc('ad', { a: 1, b: 2 })
      assert.deepEqual([unknown.status, unknown.error?.code], [404, 'PGRST202'])
      assert.match(unknown.error?.hint ?? '', /add/)
      const argument = await rpc('add', { a: 1, c: 2 })
      assert.deepEqual([argument.status, argument.error?.code], [404, 'PGRST202'])
    })

    test('exec_sql is 403 for other roles than service_role', async () => {
      const ask = { sql: 'select 6 * 7 as answer' }
      assert.equal((await rpc('exec_sql', ask)).status, 403)
      assert.deepEqual((await stage().service.rpc('exec_sql', ask)).data, [{ answer: 42 }])
    })
  })
}
