// Other formats than JSON rows: CSV, GeoJSON, plans, stripped nulls, and the API description.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Stage } from './stage.ts'

export function formatTests(stage: () => Stage): void {
  test('csv returns text with a header line', async () => {
    const books = () => stage().anon.from('books').select('id, summary, tags').order('id').gte('id', 4)
    const { data, error } = await books().lte('id', 6).csv()
    assert.equal(error, null)
    assert.deepEqual(data?.trimEnd().split('\n'), [
      'id,summary,tags',
      '4,"Robots, kings and (un)happy ends","{scifi,humour}"',
      '5,Pulled back in time,{history}',
      '6,,{}',
    ])
  })

  test('csv without rows is no error', async () => {
    const { data, error } = await stage().anon.from('books').select('id').eq('id', 99).csv()
    assert.equal(error, null)
    assert.match(data ?? '', /^(id\n?)?$/)
  })

  test('geojson without PostGIS is 406 with a hint', async () => {
    const { data, error, status } = await stage().anon.from('books').select('id').geojson()
    assert.deepEqual([data, status], [null, 406])
    assert.match(`${error?.message} ${error?.hint}`, /postgis/i)
  })

  test('explain returns the plan to service_role, as text and as JSON with every option', async () => {
    const { service } = stage()
    const text = await service.from('books').select('id').eq('id', 1).explain()
    assert.equal(text.error, null)
    assert.match(text.data as string, /Scan.*books/s)
    assert.doesNotMatch(text.data as string, /actual time/)
    const json = await service
      .from('books')
      .select('id')
      .eq('id', 1)
      .explain({ format: 'json', analyze: true, verbose: true, settings: true, buffers: true, wal: true })
    assert.equal(json.error, null)
    const [explained] = json.data as Record<string, any>[]
    assert.ok(explained?.['Plan']['Actual Rows'] !== undefined, JSON.stringify(json.data))
    assert.ok(explained?.['Plan']['Output'], 'verbose')
    assert.ok('Shared Hit Blocks' in explained!['Plan'], 'buffers')
    const single = await service
      .from('books')
      .select('id')
      .eq('id', 1)
      .setHeader('Accept', 'application/vnd.pgrst.object+json')
      .explain()
    assert.match(single.data as string, /Scan/)
  })

  test('explain of a write does not write', async () => {
    const { service } = stage()
    const { data, error } = await service.from('books').delete().eq('id', 1).explain()
    assert.equal(error, null)
    assert.match(data as string, /Delete on (public\.)?books/)
    assert.equal((await service.from('books').select('id').eq('id', 1)).data?.length, 1)
  })

  test('explain is 403 for other roles than service_role', async () => {
    const { anon } = stage()
    const { data, error, status } = await anon.from('books').select('id').explain()
    assert.deepEqual([data, status], [null, 403])
    assert.match(`${error?.message} ${error?.hint}`, /service_role/)
  })

  test('stripNulls omits keys with null', async () => {
    const books = () => stage().anon.from('books').select('id, summary, meta').eq('id', 5)
    assert.deepEqual((await books().stripNulls()).data, [{ id: 5, summary: 'Pulled back in time', meta: {} }])
    const { data } = await stage().anon.from('books').select('id, summary').eq('id', 2).single().stripNulls()
    assert.deepEqual(data, { id: 2 })
  })

  test('getOpenApiSpec contains the tables of the caller', async () => {
    const { data, error } = await stage().anon.getOpenApiSpec()
    assert.equal(error, null)
    assert.ok(Object.keys((data as { paths: object }).paths).some(path => path.endsWith('/books')))
  })
}
