import assert from 'node:assert/strict'
import { test } from 'node:test'
import TypeBox from 'typebox'
import { Type } from './type.ts'

const samples: Record<string, (t: typeof Type) => object> = {
  'simple types with and without options': t => [
    t.Boolean(),
    t.Boolean({ default: true }),
    t.Integer({ minimum: 0 }),
    t.Null(),
    t.Number(),
    t.String({ pattern: '^a' }),
    t.Unknown({ description: 'anything' }),
    t.Array(t.String(), { maxItems: 3 }),
  ],
  'objects with required and optional fields': t => {
    const name = t.String()
    return [
      t.Object({ name: t.Optional(name), other: name }, { additionalProperties: false }),
      t.Object({ name: t.Optional(name) }),
      t.Object({}),
    ]
  },
  'unions, enums and literals': t => [
    t.Union([t.String(), t.Null()], { description: 'a text or null' }),
    t.Enum(['a', 'b'] as const, { default: 'a' }),
    t.Literal('a'),
    t.Literal(5),
    t.Literal(true),
  ],
  'records with any key or with keys of a pattern': t => [
    t.Record(t.String(), t.Unknown(), { description: 'any values' }),
    t.Record(t.String({ pattern: '^a' }), t.String()),
  ],
  'a schema passed through unchanged': t => t.Unsafe({ type: 'object', minProperties: 1 }),
}

for (const [what, build] of Object.entries(samples))
  test(`type builders: same schema as TypeBox: ${what}`, () => {
    assert.equal(JSON.stringify(build(Type)), JSON.stringify(build(TypeBox)))
  })
