import assert from 'node:assert/strict'
import { test } from 'node:test'
import { atOnce } from '#src/kernel/slices.ts'
import type { Catalog, Handler, Relation, Routine } from '#src/query/catalog.ts'
import type { RowsQuery } from '#src/query/items.ts'
import { acceptedFrom } from './accept.ts'
import { bytesFrom, mediaOfRows, mediaOfValue } from './media.ts'

const catalogWith = (handlers: [string, Handler][] = []) =>
  ({ handlers: new Map(handlers) }) as unknown as Catalog
const relationWith = (handlers: [string, Handler][] = []) =>
  ({ handlers: new Map(handlers) }) as unknown as Relation
const all: RowsQuery = { select: [{ kind: 'star' }], where: [], order: [] }
const some: RowsQuery = { ...all, select: [{ kind: 'field', field: { column: 'id', path: [] } }] }
const mediaOf = (header: string | undefined) =>
  mediaOfRows(catalogWith(), relationWith(), all, acceptedFrom(header))

const cases: [string | undefined, string, boolean?][] = [
  [undefined, 'array'],
  ['*/*', 'array'],
  ['application/json', 'array'],
  ['text/html, */*;q=0.1', 'array'],
  ['application/vnd.pgrst.object+json', 'object'],
  ['application/vnd.pgrst.object+json;nulls=stripped', 'object', true],
  ['application/vnd.pgrst.array+json;nulls=stripped', 'array', true],
  ['text/csv;q=0.5, application/json;q=0.4', 'csv'],
  ['application/json;q=0.4, text/csv;q=0.5', 'csv'],
  ['application/geo+json', 'geojson'],
  ['image/png, text/csv;q=0, application/json;q=0.2', 'array'],
]
for (const [header, kind, strips] of cases)
  test(`accept: ${header} selects ${kind}`, () => {
    const { form } = mediaOf(header)
    assert.equal(form.kind, kind)
    if (strips) assert.ok('stripsNulls' in form && form.stripsNulls)
  })

test('accept: the media type of a plan has a format, options and the media type to explain', () => {
  const header =
    'application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object+json"; options=analyze|buffers;'
  assert.deepEqual(acceptedFrom(header).explain, { format: 'json', options: ['analyze', 'buffers'] })
  assert.equal(mediaOf(header).form.kind, 'object')
  const [plain, text] = ['application/vnd.pgrst.plan', 'application/vnd.pgrst.plan+text']
  assert.notEqual(acceptedFrom(plain).key, acceptedFrom(text).key, 'their answers have different types')
  assert.throws(() => mediaOf('application/vnd.pgrst.plan; options=analyze); drop table x; --'), {
    code: 'PGRST107',
  })
})

test('accept: media types that are not available are refused with 406', () => {
  for (const header of ['image/png', 'text/html', 'application/json;q=0', ';;', 'a'])
    assert.throws(() => mediaOf(header), { code: 'PGRST107', status: 406 }, header)
})

test('accept: a header with too many parts is refused', () => {
  const many = (count: number) => `${'a/b,'.repeat(count - 1)}text/csv`
  assert.equal(mediaOf(many(50)).form.kind, 'csv')
  assert.throws(() => acceptedFrom(many(52)), { code: 'PGRST107' })
  assert.throws(() => acceptedFrom(`text/csv${';a=b'.repeat(52)}`), { code: 'PGRST107' })
})

const png: Handler = { schema: 'public', name: 'as_png', isBinary: true }
const csv: Handler = { schema: 'public', name: 'as_csv', isBinary: false }

test('media: an aggregate over the rows of a table serves its media type, if all columns are selected', () => {
  const relation = relationWith([
    ['image/png', png],
    ['text/csv', csv],
  ])
  const asked = acceptedFrom('image/png')
  assert.deepEqual(mediaOfRows(catalogWith(), relation, all, asked), {
    form: { kind: 'handled', by: png, takesRow: true },
    contentType: 'image/png',
  })
  assert.throws(() => mediaOfRows(catalogWith(), relation, some, asked), { code: 'PGRST107' })
  const { form, contentType } = mediaOfRows(catalogWith(), relation, all, acceptedFrom('text/csv'))
  assert.deepEqual([form.kind, contentType], ['handled', 'text/csv; charset=utf-8'])
  assert.equal(mediaOfRows(catalogWith(), relation, all, acceptedFrom('*/*')).form.kind, 'array')
})

test('media: an aggregate over any rows serves every selection', () => {
  const catalog = catalogWith([['image/png', png]])
  const { form } = mediaOfRows(catalog, relationWith(), some, acceptedFrom('text/html, image/png;q=0.5'))
  assert.deepEqual(form, { kind: 'handled', by: png, takesRow: false })
})

test('media: a handler of any media type comes before all others, except those of PostgREST', () => {
  const relation = relationWith([['*/*', png]])
  const typeFor = (header: string) =>
    mediaOfRows(catalogWith(), relation, all, acceptedFrom(header)).contentType
  assert.equal(typeFor('*/*'), 'application/octet-stream')
  assert.equal(typeFor('text/csv'), 'text/csv')
  assert.equal(
    typeFor('application/vnd.pgrst.object+json'),
    'application/vnd.pgrst.object+json; charset=utf-8',
  )
})

test('media: a function serves the media type it returns, and JSON', () => {
  const routine = { media: { type: 'image/png', isBinary: true } } as unknown as Routine
  const formFor = (header: string) => mediaOfValue(catalogWith(), routine, acceptedFrom(header)).form.kind
  assert.deepEqual(['image/png', 'application/json', '*/*'].map(formFor), ['value', 'array', 'array'])
  assert.throws(() => formFor('text/html'), { code: 'PGRST107' })
})

test('media: bytes are decoded from hexadecimal digits', () => {
  const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 256))
  assert.deepEqual(atOnce(bytesFrom(Buffer.from(bytes.toString('hex')))), bytes)
})
