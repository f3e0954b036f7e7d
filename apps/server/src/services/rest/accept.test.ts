import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acceptedFrom } from './accept.ts'

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
    const { form } = acceptedFrom(header)
    assert.equal(form.kind, kind)
    if (strips) assert.ok('stripsNulls' in form && form.stripsNulls)
  })

test('accept: the media type of a plan has a format, options and the media type to explain', () => {
  const { explain, form } = acceptedFrom(
    'application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object+json"; options=analyze|buffers;',
  )
  assert.deepEqual(explain, { format: 'json', options: ['analyze', 'buffers'] })
  assert.equal(form.kind, 'object')
  assert.throws(() => acceptedFrom('application/vnd.pgrst.plan; options=analyze); drop table x; --'), {
    code: 'PGRST107',
  })
})

test('accept: media types that are not available are refused with 406', () => {
  for (const header of ['image/png', 'text/html', 'application/json;q=0', ';;', 'a'])
    assert.throws(() => acceptedFrom(header), { code: 'PGRST107', status: 406 }, header)
})

test('accept: a header with too many parts is refused', () => {
  const many = (count: number) => `${'a/b,'.repeat(count - 1)}text/csv`
  assert.equal(acceptedFrom(many(50)).form.kind, 'csv')
  assert.throws(() => acceptedFrom(many(52)), { code: 'PGRST107' })
  assert.throws(() => acceptedFrom(`text/csv${';a=b'.repeat(52)}`), { code: 'PGRST107' })
})
