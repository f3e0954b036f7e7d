// Callers and schemas: keys, signed-in users, and schema().
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Stage } from './stage.ts'

const ada = '11111111-1111-4111-8111-111111111111'
const bob = '22222222-2222-4222-8222-222222222222'

export function callerTests(stage: () => Stage): void {
  test('a signed-in user writes and reads only own rows', async () => {
    const { anon, service, user } = stage()
    const mine = await user(ada).from('diary').insert({ entry: 'dear diary' }).select('owner, entry').single()
    assert.deepEqual(mine.data, { owner: ada, entry: 'dear diary' })
    await user(bob).from('diary').insert({ entry: 'day one' }).throwOnError()
    const seen = async (client: Stage['anon']) =>
      (await client.from('diary').select('entry', { count: 'exact' }).order('id')).count
    assert.deepEqual(
      [await seen(user(ada)), await seen(user(bob)), await seen(anon), await seen(service)],
      [1, 1, 0, 2],
    )
    const forged = await user(bob).from('diary').insert({ entry: 'by Ada', owner: ada })
    assert.deepEqual([forged.status, forged.error?.code], [403, '42501'])
    const foreign = await user(bob).from('diary').delete({ count: 'exact' }).eq('owner', ada)
    assert.deepEqual([foreign.error, foreign.count], [null, 0])
  })

  test('an unknown key and an invalid token are 401', async () => {
    const { as, project } = stage()
    const unknown = await as('platform_anon_library_0000000000000000').from('books').select()
    assert.deepEqual([unknown.status, unknown.data], [401, null])
    const expired = await as(project.anon_key, { token: 'eyJhbGciOiJIUzI1NiJ9.e30.AAAA' })
      .from('books')
      .select()
    assert.equal(expired.status, 401)
    assert.equal(typeof expired.error?.message, 'string')
  })

  test('schema() reads, writes and calls in another exposed schema', async () => {
    const shop = stage().anon.schema('shop')
    assert.deepEqual((await shop.from('items').select()).data, [{ id: 1, label: 'lamp' }])
    const made = await shop.from('items').insert({ id: 2, label: 'desk' }).select('label').single()
    assert.deepEqual([made.status, made.data], [201, { label: 'desk' }])
    assert.equal((await shop.rpc('item_count')).data, 2)
    assert.equal((await shop.rpc('item_count', {}, { get: true })).data, 2)
    await shop.from('items').update({ label: 'table' }).eq('id', 2).throwOnError()
    await shop.from('items').upsert({ id: 2, label: 'chair' }).throwOnError()
    const gone = await shop.from('items').delete().eq('id', 2).select('label').single()
    assert.deepEqual(gone.data, { label: 'chair' })
    assert.equal((await shop.from('books').select()).error?.code, 'PGRST205')
    assert.equal((await stage().anon.from('items').select()).error?.code, 'PGRST205')
  })

  test('the schema can be set in the client options', async () => {
    const { as, project } = stage()
    const { data } = await as(project.anon_key, { schema: 'shop' }).from('items').select('id').eq('id', 1)
    assert.deepEqual(data, [{ id: 1 }])
  })

  test('a schema that is not exposed is 406', async () => {
    const { service } = stage()
    for (const schema of ['backroom', 'platform', 'pg_catalog', 'nowhere']) {
      const { status, error } = await service.schema(schema).from('ledger').select()
      assert.deepEqual([status, error?.code], [406, 'PGRST106'], schema)
      const write = await service.schema(schema).from('ledger').insert({ id: 1 })
      assert.deepEqual([write.status, write.error?.code], [406, 'PGRST106'], schema)
    }
  })
}
