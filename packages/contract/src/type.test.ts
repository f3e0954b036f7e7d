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
  'objects, whose fields are required unless they are optional': t => {
    const name = t.String()
    return [
      t.Object({ name: t.Optional(name), other: name }, { additionalProperties: false }),
      t.Object({ name: t.Optional(name) }),
      t.Object({}),
    ]
  },
  'one of several': t => [
    t.Union([t.String(), t.Null()], { description: 'perhaps' }),
    t.Enum(['a', 'b'] as const, { default: 'a' }),
    t.Literal('a'),
    t.Literal(5),
    t.Literal(true),
  ],
  'records by any key or by keys of a pattern': t => [
    t.Record(t.String(), t.Unknown(), { description: 'whatever' }),
    t.Record(t.String({ pattern: '^a' }), t.String()),
  ],
  'what is given whole': t => t.Unsafe({ type: 'object', minProperties: 1 }),
}

for (const [what, build] of Object.entries(samples))
  test(`the builders make what TypeBox makes: ${what}`, () => {
    assert.equal(JSON.stringify(build(Type)), JSON.stringify(build(TypeBox)))
  })
