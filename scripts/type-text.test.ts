import assert from 'node:assert/strict'
import { test } from 'node:test'
import { interfaceText, typeText } from './type-text.ts'

test('type text: an object schema becomes an interface with its descriptions as comments', () => {
  const text = interfaceText('Thing', {
    type: 'object',
    required: ['id', 'kind', 'inner', 'rest'],
    properties: {
      id: { type: 'integer', description: 'Ends */ here.' },
      kind: { enum: ['a', 'b'] },
      note: { type: 'string' },
      inner: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean' } } },
      rest: {},
    },
  })
  assert.equal(
    text,
    `export interface Thing {
  /** Ends *\\/ here. */
  id: number
  kind: "a" | "b"
  note?: string
  inner: {
    ok: boolean
  }
  rest: unknown
}
`,
  )
})

test('type text: arrays and unions become TypeScript types', () => {
  const schema = { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'null' }] } }
  assert.equal(typeText(schema), 'Array<string | null>')
})

test('type text: an unsupported schema throws', () => {
  assert.throws(() => typeText({ type: 'tuple' }), /No TypeScript type/)
  assert.throws(() => interfaceText('Text', { type: 'string' }), /not an object/)
})
