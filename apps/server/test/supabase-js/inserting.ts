// insert and upsert with every option.
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import type { Stage } from './stage.ts'

export function insertTests(stage: () => Stage): void {
  const notes = () => stage().anon.from('notes')
  const kept = async (columns = 'title, stars') => (await notes().select(columns).order('id')).data

  describe('insert', () => {
    beforeEach(() => stage().clearNotes())

    test('returns no rows by default', async () => {
      const { data, error, status, count } = await notes().insert({ title: 'one' })
      assert.deepEqual([data, error, status, count], [null, null, 201, null])
      assert.deepEqual(await kept('id, title, body, stars'), [
        { id: 1, title: 'one', body: 'empty', stars: 3 },
      ])
    })

    test('returns the rows with select, and one object with single', async () => {
      const rows = await notes()
        .insert([{ title: 'one' }, { title: 'two' }])
        .select('id, title')
      assert.equal(rows.status, 201)
      assert.deepEqual(rows.data, [
        { id: 1, title: 'one' },
        { id: 2, title: 'two' },
      ])
      const row = await notes()
        .insert({ title: 'three', author_id: 2 })
        .select('title, authors(name)')
        .single()
      assert.equal(row.status, 201)
      assert.deepEqual(row.data, { title: 'three', authors: { name: 'Stanislaw' } })
      const maybe = await notes().insert({ title: 'four' }).select('title').maybeSingle()
      assert.deepEqual([maybe.status, maybe.data], [201, { title: 'four' }])
    })

    test('single with several rows is 406 and inserts none', async () => {
      const { status, error } = await notes()
        .insert([{ title: 'one' }, { title: 'two' }])
        .select()
        .single()
      assert.deepEqual([status, error?.code], [406, 'PGRST116'])
      assert.deepEqual(await kept(), [])
    })

    test('returns the count of inserted rows', async () => {
      const rows = [{ title: 'one' }, { title: 'two' }]
      const { count, data } = await notes().insert(rows, { count: 'exact' })
      assert.deepEqual([count, data], [2, null])
      const selected = await notes().insert({ title: 'three' }, { count: 'exact' }).select('title')
      assert.deepEqual([selected.count, selected.data], [1, [{ title: 'three' }]])
    })

    test('columns missing in some rows are null, or their default with defaultToNull false', async () => {
      const rows = (from: number) => [{ title: `${from}`, stars: 1 }, { title: `${from + 1}` }]
      await notes().insert(rows(1)).throwOnError()
      assert.deepEqual(await kept('title, stars, body'), [
        { title: '1', stars: 1, body: 'empty' },
        { title: '2', stars: null, body: 'empty' },
      ])
      const { data } = await notes().insert(rows(3), { defaultToNull: false }).select('title, stars')
      assert.deepEqual(data, [
        { title: '3', stars: 1 },
        { title: '4', stars: 3 },
      ])
    })

    test('with an empty array is no error', async () => {
      const { data, error, status } = await notes().insert([]).select()
      assert.deepEqual([data, error, status], [[], null, 201])
    })

    test('stores a BigInt exactly', async () => {
      const { data } = await notes()
        .insert({ title: 'big', big: 9007199254740993n })
        .select('big::text')
        .single()
      assert.deepEqual(data, { big: '9007199254740993' })
    })

    test('rejected rows get the error code of the cause, and nothing is inserted', async () => {
      await notes().insert({ title: 'taken' }).throwOnError()
      const refused: [string, object, number, string][] = [
        ['a unique value twice', { title: 'taken' }, 409, '23505'],
        ['a reference to nobody', { title: 'a', author_id: 99 }, 409, '23503'],
        ['a check that fails', { title: 'a', stars: 6 }, 400, '23514'],
        ['a missing value', { body: 'untitled' }, 400, '23502'],
        ['a column that is none', { title: 'a', colour: 'red' }, 400, 'PGRST204'],
        ['a value of another type', { title: 'a', stars: 'many' }, 400, '22P02'],
        ['a row the policy forbids', { title: 'forbidden' }, 403, '42501'],
      ]
      for (const [what, row, status, code] of refused) {
        const answer = await notes().insert(row).select()
        assert.deepEqual([answer.status, answer.error?.code], [status, code], what)
        assert.equal(answer.data, null, what)
      }
      const half = await notes().insert([{ title: 'good' }, { title: 'taken' }])
      assert.equal(half.error?.code, '23505')
      assert.deepEqual(await kept('title'), [{ title: 'taken' }])
    })

    test('rollback returns the rows and inserts nothing', async () => {
      const { data, error, status } = await notes().insert({ title: 'one' }).select('title').rollback()
      assert.deepEqual([data, error, status], [[{ title: 'one' }], null, 201])
      assert.deepEqual(await kept(), [])
    })
  })

  describe('upsert', () => {
    beforeEach(() =>
      stage().sql("truncate public.notes; insert into public.notes (id, title) values (1, 'one')"),
    )

    test('inserts new rows and updates those with the same primary key', async () => {
      const fresh = await notes().upsert({ id: 2, title: 'two', stars: 2 })
      assert.deepEqual([fresh.status, fresh.data, fresh.error], [201, null, null])
      const again = await notes().upsert({ id: 2, title: 'second' }).select('id, title, stars')
      assert.deepEqual([again.status, again.data], [200, [{ id: 2, title: 'second', stars: 2 }]])
      const mixed = [
        { id: 1, title: 'first' },
        { id: 3, title: 'third' },
      ]
      const both = await notes().upsert(mixed, { count: 'exact' }).select('id').order('id')
      assert.deepEqual([both.status, both.count, both.data?.length], [201, 2, 2])
      assert.deepEqual(await kept('id, title'), [
        { id: 1, title: 'first' },
        { id: 2, title: 'second' },
        { id: 3, title: 'third' },
      ])
    })

    test('onConflict names another unique column', async () => {
      const { data } = await notes()
        .upsert({ title: 'one', stars: 5 }, { onConflict: 'title' })
        .select('id, title, stars')
        .single()
      assert.deepEqual(data, { id: 1, title: 'one', stars: 5 })
    })

    test('ignoreDuplicates does not change existing rows', async () => {
      const rows = [
        { title: 'one', stars: 5 },
        { title: 'two', stars: 5 },
      ]
      const options = { onConflict: 'title', ignoreDuplicates: true }
      const { data, error } = await notes().upsert(rows, options).select('title')
      assert.deepEqual([data, error], [[{ title: 'two' }], null])
      const none = await notes().upsert(rows, options).select('title')
      assert.deepEqual([none.status, none.data], [201, []])
      assert.deepEqual(await kept(), [
        { title: 'one', stars: 3 },
        { title: 'two', stars: 5 },
      ])
    })

    test('defaultToNull false gives missing columns their default', async () => {
      const rows = [
        { id: 8, title: 'eight', stars: 1 },
        { id: 9, title: 'nine' },
      ]
      const { data } = await notes().upsert(rows, { defaultToNull: false }).select('id, stars').order('id')
      assert.deepEqual(data, [
        { id: 8, stars: 1 },
        { id: 9, stars: 3 },
      ])
    })

    test('is rejected for a table without a primary key', async () => {
      const { anon } = stage()
      const { status, error } = await anon.from('keyless').upsert({ label: 'x' })
      assert.equal(status, 400, JSON.stringify(error))
      assert.match(`${error?.message} ${error?.hint}`, /on_conflict/)
      assert.deepEqual((await anon.from('keyless').select()).data, [])
    })

    test('is rejected if onConflict names columns that are not unique', async () => {
      const { status, error } = await notes().upsert({ title: 'x' }, { onConflict: 'body' })
      assert.deepEqual([status, error?.code], [400, '42P10'])
    })
  })
}
