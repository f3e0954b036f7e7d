// update and delete: required filters, results, and limits on the affected rows.
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import type { Stage } from './stage.ts'

export function changeTests(stage: () => Stage): void {
  const notes = () => stage().anon.from('notes')
  const starsOf = async () => {
    const { data } = await notes().select('title, stars').order('title')
    return Object.fromEntries((data ?? []).map(({ title, stars }) => [title, stars]))
  }
  const untouched = { a: 1, b: 2, c: 3 }
  const fill = `truncate public.notes restart identity;
    insert into public.notes (title, stars) values ('a', 1), ('b', 2), ('c', 3)`

  describe('update', () => {
    beforeEach(() => stage().sql(fill))

    test('returns no rows by default', async () => {
      const { data, error, status } = await notes().update({ stars: 5 }).eq('title', 'a')
      assert.deepEqual([data, error, status], [null, null, 204])
      assert.deepEqual(await starsOf(), { a: 5, b: 2, c: 3 })
    })

    test('returns the rows with select, and the count', async () => {
      const { data, count, status } = await notes()
        .update({ stars: 0 }, { count: 'exact' })
        .in('title', ['a', 'b'])
        .select('title, stars')
      assert.deepEqual([status, count], [200, 2])
      assert.deepEqual(data?.map(({ title, stars }) => `${title}${stars}`).sort(), ['a0', 'b0'])
      const counted = await notes().update({ stars: 1 }, { count: 'exact' }).gte('stars', 0)
      assert.deepEqual([counted.status, counted.count, counted.data], [204, 3, null])
    })

    test('is no error if no row matches', async () => {
      const nothing = await notes().update({ stars: 5 }).eq('title', 'z')
      assert.deepEqual([nothing.status, nothing.error], [204, null])
      const selected = await notes().update({ stars: 5 }).eq('title', 'z').select()
      assert.deepEqual([selected.status, selected.data], [200, []])
    })

    test('with an empty object changes nothing', async () => {
      const plain = await notes().update({}).eq('title', 'a')
      assert.deepEqual([plain.status, plain.error], [204, null])
      const selected = await notes().update({}).eq('title', 'a').select()
      assert.deepEqual([selected.status, selected.data], [200, []])
      assert.deepEqual(await starsOf(), untouched)
    })

    test('single returns the one row, and otherwise is 406 and changes nothing', async () => {
      const one = await notes().update({ stars: 4 }).eq('title', 'c').select('title, stars').single()
      assert.deepEqual([one.status, one.data], [200, { title: 'c', stars: 4 }])
      const many = await notes().update({ stars: 0 }).gt('stars', 0).select().single()
      assert.deepEqual([many.status, many.error?.code], [406, 'PGRST116'])
      assert.match(many.error?.details ?? '', /\b3 rows/)
      const none = await notes().update({ stars: 0 }).eq('title', 'z').select().single()
      assert.deepEqual([none.status, none.error?.code], [406, 'PGRST116'])
      assert.match(none.error?.details ?? '', /\b0 rows/)
      assert.deepEqual(await starsOf(), { ...untouched, c: 4 })
    })

    test('is rejected without a filter, or with only an or group', async () => {
      const { status, error } = await notes().update({ stars: 0 })
      assert.equal(status, 400)
      assert.match(error?.message ?? '', /filter/i)
      assert.equal((await notes().update({ stars: 0 }).or('stars.eq.1,stars.eq.2')).status, 400)
      assert.deepEqual(await starsOf(), untouched)
    })

    test('an or group restricts a filter further', async () => {
      const { error } = await notes().update({ stars: 0 }).gt('stars', 1).or('title.eq.a,title.eq.b')
      assert.equal(error, null)
      assert.deepEqual(await starsOf(), { a: 1, b: 0, c: 3 })
    })

    test('maxAffected rejects a write of more rows', async () => {
      const { status, error } = await notes().update({ stars: 0 }).gt('stars', 1).maxAffected(1)
      assert.deepEqual([status, error?.code], [400, 'PGRST124'])
      assert.deepEqual(await starsOf(), untouched)
      const fits = await notes().update({ stars: 0 }).gt('stars', 1).maxAffected(2).select('title')
      assert.deepEqual([fits.status, fits.data?.length], [200, 2])
    })

    test('rollback returns the changed rows and changes nothing', async () => {
      const { data, status } = await notes().update({ stars: 0 }).eq('title', 'a').select('stars').rollback()
      assert.deepEqual([status, data], [200, [{ stars: 0 }]])
      assert.deepEqual(await starsOf(), untouched)
    })

    test('an unknown column, a row that a policy forbids and a failed check are rejected', async () => {
      const refused: [object, number, string][] = [
        [{ colour: 'red' }, 400, 'PGRST204'],
        [{ title: 'forbidden' }, 403, '42501'],
        [{ stars: 9 }, 400, '23514'],
      ]
      for (const [row, status, code] of refused) {
        const answer = await notes().update(row).eq('title', 'a')
        assert.deepEqual([answer.status, answer.error?.code], [status, code])
      }
      assert.deepEqual(await starsOf(), untouched)
    })

    test('csv returns the changed rows', async () => {
      const { data } = await notes().update({ stars: 5 }).eq('title', 'a').select('title, stars').csv()
      assert.deepEqual(data?.trimEnd().split('\n'), ['title,stars', 'a,5'])
    })
  })

  describe('delete', () => {
    beforeEach(() => stage().sql(fill))

    test('returns no rows by default', async () => {
      const { data, error, status } = await notes().delete().eq('title', 'a')
      assert.deepEqual([data, error, status], [null, null, 204])
      assert.deepEqual(await starsOf(), { b: 2, c: 3 })
    })

    test('returns the rows with select, and the count', async () => {
      const counted = await notes().delete({ count: 'exact' }).gt('stars', 2)
      assert.deepEqual([counted.status, counted.count], [204, 1])
      const { data, count, status } = await notes().delete({ count: 'exact' }).lt('stars', 9).select('title')
      assert.deepEqual([status, count, data?.length], [200, 2, 2])
      assert.deepEqual(await starsOf(), {})
    })

    test('is rejected without a filter', async () => {
      const { status, error } = await notes().delete()
      assert.equal(status, 400)
      assert.match(error?.message ?? '', /filter/i)
      assert.equal((await notes().delete().or('stars.eq.1,stars.eq.2')).status, 400)
      assert.deepEqual(await starsOf(), untouched)
    })

    test('single, maxAffected and rollback prevent it', async () => {
      const many = await notes().delete().gt('stars', 1).select().single()
      assert.deepEqual([many.status, many.error?.code], [406, 'PGRST116'])
      const tooFar = await notes().delete().gt('stars', 0).maxAffected(2)
      assert.deepEqual([tooFar.status, tooFar.error?.code], [400, 'PGRST124'])
      const undone = await notes().delete().eq('title', 'a').select('title').rollback()
      assert.deepEqual(undone.data, [{ title: 'a' }])
      assert.deepEqual(await starsOf(), untouched)
      const one = await notes().delete().eq('title', 'a').select('title').single()
      assert.deepEqual([one.status, one.data], [200, { title: 'a' }])
    })

    test('deletes only rows that a policy allows', async () => {
      const { anon, service } = stage()
      const { error, count } = await anon.from('books').delete({ count: 'exact' }).gt('id', 0)
      assert.deepEqual([error, count], [null, 0])
      assert.equal((await service.from('books').select('id', { count: 'exact', head: true })).count, 7)
    })
  })
}
