import type { Static } from 'typebox'
import type { DataRoute, Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery } from './shapes.ts'
import { Type } from './type.ts'

export const maxKeyLength = 2048
const Key = Type.String({ minLength: 1, maxLength: maxKeyLength })
const Keys = Type.Array(Key, { maxItems: 10_000 })
const Value = Type.String()
/** A hundred years. For longer, omit the expiry. */
const maxSeconds = 3_155_760_000
const Seconds = Type.Integer({ minimum: 1, maximum: maxSeconds })

const ofProject = Type.Object({ project: Id })
const ofKey = Type.Object({ project: Id, key: Key })

export const SetBody = Type.Object(
  {
    key: Key,
    value: Value,
    ex: Type.Optional(Type.Integer({ ...Seconds, description: 'Time to live in seconds; overrides px.' })),
    px: Type.Optional(
      Type.Integer({ minimum: 1, maximum: maxSeconds * 1000, description: 'Time to live in milliseconds.' }),
    ),
    nx: Type.Optional(Type.Boolean({ description: 'Only if the key is absent.' })),
    xx: Type.Optional(Type.Boolean({ description: 'Only if the key is present.' })),
  },
  { additionalProperties: false },
)
export type SetBody = Static<typeof SetBody>

const KeysBody = Type.Object({ keys: Keys }, { additionalProperties: false })
const CountBody = Type.Object(
  {
    key: Key,
    by: Type.Optional(
      Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, default: 1 }),
    ),
  },
  { additionalProperties: false },
)

const call = {
  plane: 'data',
  // Only servers of the project call these routes.
  allow: ['service_role'],
} as const satisfies Partial<DataRoute>

export const cacheApi = {
  get: {
    ...call,
    method: 'GET',
    path: '/cache/{project}/get/{key}',
    summary: 'Read a value; 404 if the key is absent',
    params: ofKey,
    reply: Type.Object({ value: Value }),
  },
  set: {
    ...call,
    method: 'POST',
    path: '/cache/{project}/set',
    summary: 'Write a value; `ok` is false if the condition nx or xx was not met',
    params: ofProject,
    body: SetBody,
    reply: Type.Object({ ok: Type.Boolean() }),
  },
  del: {
    ...call,
    method: 'POST',
    path: '/cache/{project}/del',
    summary: 'Delete keys and return how many existed',
    params: ofProject,
    body: KeysBody,
    reply: Type.Object({ deleted: Type.Integer() }),
  },
  incr: {
    ...call,
    method: 'POST',
    path: '/cache/{project}/incr',
    summary: 'Add to a 64-bit integer; an absent key counts as 0',
    params: ofProject,
    body: CountBody,
    reply: Type.Object({ value: Type.Integer() }),
  },
  decr: {
    ...call,
    method: 'POST',
    path: '/cache/{project}/decr',
    summary: 'Subtract from a 64-bit integer; an absent key counts as 0',
    params: ofProject,
    body: CountBody,
    reply: Type.Object({ value: Type.Integer() }),
  },
  expire: {
    ...call,
    method: 'POST',
    path: '/cache/{project}/expire',
    summary: 'Set the expiry of a key; 0 or less deletes it at once',
    params: ofProject,
    body: Type.Object(
      { key: Key, seconds: Type.Integer({ minimum: -maxSeconds, maximum: maxSeconds }) },
      { additionalProperties: false },
    ),
    reply: Type.Object({ applied: Type.Boolean() }),
  },
  ttl: {
    ...call,
    method: 'GET',
    path: '/cache/{project}/ttl/{key}',
    summary: 'Read the time to live of a key in seconds: -1 without expiry, -2 if absent',
    params: ofKey,
    reply: Type.Object({ ttl: Type.Integer() }),
  },
  exists: {
    ...call,
    method: 'GET',
    path: '/cache/{project}/exists/{key}',
    summary: 'Whether a key is present',
    params: ofKey,
    reply: Type.Object({ exists: Type.Boolean() }),
  },
  mget: {
    ...call,
    method: 'POST',
    path: '/cache/{project}/mget',
    summary: 'Read several values in the order of the keys; null for an absent key',
    params: ofProject,
    body: KeysBody,
    reply: Type.Object({ values: Type.Array(Nullable(Value)) }),
  },
  mset: {
    ...call,
    method: 'POST',
    path: '/cache/{project}/mset',
    anyKey: true,
    summary: 'Write several values atomically, without expiry',
    params: ofProject,
    body: Type.Object(
      {
        // Type.Record would not check keys that contain a line break.
        pairs: Type.Unsafe<Record<string, string>>({
          type: 'object',
          maxProperties: 10_000,
          propertyNames: Key,
          additionalProperties: Value,
        }),
      },
      { additionalProperties: false },
    ),
    reply: Type.Object({ ok: Type.Boolean() }),
  },
  scan: {
    ...call,
    method: 'GET',
    path: '/cache/{project}/scan',
    summary:
      'List the keys of the project page by page: start with cursor 0, stop when the answer has cursor 0',
    params: ofProject,
    query: Type.Object({
      cursor: Type.Optional(
        Type.String({ pattern: '^[0-9]{1,20}$', description: 'the cursor of the answer before' }),
      ),
      match: Type.Optional(Type.String({ maxLength: 1024, description: 'A pattern with * ? [abc] and \\.' })),
      count: Type.Optional(
        Type.Integer({
          minimum: 1,
          description: 'About how many keys to return; default 10, clamped to 1000.',
        }),
      ),
    }),
    reply: Type.Object({ cursor: Type.String(), keys: Type.Array(Type.String()) }),
  },
} as const satisfies Routes

export const cacheTypes = ['string', 'hash', 'list', 'set', 'zset'] as const
export type CacheType = (typeof cacheTypes)[number]

const entry = {
  key: Type.String(),
  type: Type.String({ description: `One of ${cacheTypes.join(', ')}.` }),
  ttl: Type.Integer({ description: 'Time to live in seconds; -1 without expiry.' }),
  size: Type.Integer({ description: 'Bytes of a string; memory used by the other types.' }),
}
export const CacheEntry = Type.Object(entry)
export type CacheEntry = Static<typeof CacheEntry>

export const CacheValue = Type.Object({
  ...entry,
  value: Type.Unknown({
    description:
      'A string; an object for a hash; an array for a list or set; an array of `{member, score}` for a zset.',
  }),
  truncated: Type.Boolean({ description: 'True when only the first 1000 elements are shown.' }),
})
export type CacheValue = Static<typeof CacheValue>

export const CacheStats = Type.Object({
  engine: Type.Enum(['memory', 'redis'] as const),
  key_count: Type.Integer(),
  memory_bytes: Type.Integer({ description: 'With Redis, an estimate from a sample of the keys.' }),
  max_bytes: Nullable(
    Type.Integer({ description: 'Null with Redis, which has one memory limit for all projects.' }),
  ),
})
export type CacheStats = Static<typeof CacheStats>

const managed = Type.Object({ id: Id })
const managedKey = Type.Object({ id: Id, key: Key })

export const cacheManagementApi = {
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/cache/keys',
    scope: 'read',
    summary: 'List the cache keys of a project that match a pattern',
    params: managed,
    query: Type.Object({
      pattern: Type.Optional(Type.String({ maxLength: 1024, default: '*' })),
      limit: Type.Optional(
        Type.Integer({ minimum: 0, default: 50, description: 'Keys to return; clamped to 200.' }),
      ),
      offset: pageQuery.offset,
    }),
    reply: page('keys', CacheEntry),
  },
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/cache/keys/{key}',
    scope: 'read',
    summary: 'Read a cache key of any type',
    params: managedKey,
    reply: CacheValue,
  },
  create: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/cache/keys',
    scope: 'admin',
    audit: 'cache.key_set',
    status: 201,
    summary: 'Write a string to the cache of a project',
    params: managed,
    body: Type.Object(
      {
        key: Key,
        value: Value,
        ttl: Type.Optional(
          Type.Integer({
            ...Seconds,
            description: 'Time to live in seconds. If omitted, the key does not expire.',
          }),
        ),
      },
      { additionalProperties: false },
    ),
    reply: CacheValue,
  },
  delete: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/cache/keys/{key}',
    scope: 'admin',
    audit: 'cache.key_deleted',
    status: 204,
    summary: 'Delete a cache key',
    params: managedKey,
    reply: Empty,
  },
  flush: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/cache/flush',
    scope: 'admin',
    audit: 'cache.flushed',
    summary: 'Delete all cache keys of this project',
    params: managed,
    reply: Type.Object({ deleted: Type.Integer() }),
  },
  stats: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/cache/stats',
    scope: 'read',
    summary: 'How many cache keys a project has, and how much memory they take',
    params: managed,
    reply: CacheStats,
  },
} as const satisfies Routes
