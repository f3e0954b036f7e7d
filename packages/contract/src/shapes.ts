// Schemas that several route tables share.
import type { Static, TArray, TInteger, TSchema } from 'typebox'
import { Type } from './type.ts'

export const Id = Type.String({
  format: 'uuid',
  description: 'a UUID',
  // The format alone would also accept `urn:uuid:…`.
  pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$',
})
export const Timestamp = Type.String({ format: 'date-time' })
export const Nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

/** The server clamps a `limit` above the maximum. */
export const pageQuery = {
  limit: Type.Optional(Type.Integer({ minimum: 0, description: 'Rows to return; clamped to 100.' })),
  offset: Type.Optional(
    Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Rows to skip.' }),
  ),
}
export const PageQuery = Type.Object(pageQuery)
export type PageQuery = Static<typeof PageQuery>

const Count = Type.Integer()

/** The answer of every list: `{<plural>, total, limit, offset}`. */
export const page = <K extends string, T extends TSchema>(plural: K, item: T) =>
  Type.Object({ [plural]: Type.Array(item), total: Count, limit: Count, offset: Count } as {
    [P in K | 'total' | 'limit' | 'offset']: P extends K ? TArray<T> : TInteger
  })

export const Empty = Type.Null()

export const Text = (maxLength: number) =>
  Type.String({ maxLength, pattern: '^[^\\u0000]*$', description: 'a text without NUL characters' })
