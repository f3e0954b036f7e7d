// Secrets of a project, which its edge functions read. No route but the rotation returns a value.
import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

/** Functions see the values of these names from the platform itself. */
export const reservedPrefixes = ['PLATFORM_', 'SUPABASE_', 'DENO_'] as const

export const SecretName = Type.String({
  pattern: '^[A-Za-z_][A-Za-z0-9_]{0,127}$',
  description: 'letters, digits and underscores, not starting with a digit, at most 128 characters',
})

/** Its length is limited in bytes, which a schema cannot express. */
const SecretValue = Type.String({
  maxLength: 65_536,
  pattern: '^[^\\u0000]*$',
  description: 'at most 64 KiB',
})

export const Secret = Type.Object({
  id: Id,
  name: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type Secret = Static<typeof Secret>

export const RotatedSecret = Type.Object({ ...Secret.properties, value: Type.String() })
export type RotatedSecret = Static<typeof RotatedSecret>

const byId = Type.Object({ id: Id })
const byName = Type.Object({ id: Id, name: SecretName })

export const secretsApi = {
  list: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/secrets',
    scope: 'read',
    summary: 'List secrets by name, without their values',
    params: byId,
    query: Type.Object(pageQuery),
    reply: page('secrets', Secret),
  },
  save: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/secrets',
    scope: 'deploy',
    audit: 'secret.saved',
    summary: 'Create a secret, or replace the value of the one with this name',
    params: byId,
    body: Type.Object({ name: SecretName, value: SecretValue }, { additionalProperties: false }),
    reply: Secret,
    status: 201,
  },
  update: {
    plane: 'management',
    method: 'PUT',
    path: '/projects/{id}/secrets/{name}',
    scope: 'admin',
    audit: 'secret.updated',
    summary: 'Replace the value of a secret',
    params: byName,
    body: Type.Object({ value: SecretValue }, { additionalProperties: false }),
    reply: Secret,
  },
  rotate: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/secrets/{name}/rotate',
    scope: 'admin',
    audit: 'secret.rotated',
    summary: 'Replace the value of a secret by a random one, which is returned once',
    params: byName,
    reply: RotatedSecret,
  },
  remove: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/secrets/{identifier}',
    scope: 'admin',
    audit: 'secret.deleted',
    summary: 'Delete a secret by its id or name',
    params: Type.Object({ id: Id, identifier: Type.String({ minLength: 1, maxLength: 128 }) }),
    reply: Empty,
    status: 204,
  },
} as const satisfies Routes
