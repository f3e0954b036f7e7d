// Saved queries and query history of a project.
import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Empty, Id, Nullable, page, pageQuery, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

const Name = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: '\\S',
  description: 'a text that is not blank',
})
const Sql = Type.String({ minLength: 1, maxLength: 200_000 })
const Description = Type.String({ maxLength: 2000 })
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

export const SavedQuery = Type.Object({
  id: Id,
  name: Type.String(),
  description: Type.String(),
  sql: Type.String(),
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type SavedQuery = Static<typeof SavedQuery>

export const SavedQueryInput = Type.Object(
  { id: Type.Optional(Id), name: Name, sql: Sql, description: Type.Optional(Description) },
  { additionalProperties: false },
)
export type SavedQueryInput = Static<typeof SavedQueryInput>

const Status = Type.Enum(['success', 'error'] as const)

export const HistoryEntry = Type.Object({
  id: Type.String(),
  sql: Type.String(),
  status: Status,
  duration_ms: Nullable(Type.Number()),
  row_count: Nullable(Type.Integer()),
  error: Nullable(Type.String()),
  executed_at: Timestamp,
})
export type HistoryEntry = Static<typeof HistoryEntry>

export const HistoryInput = Type.Object(
  {
    sql: Sql,
    status: Type.Optional(Status),
    duration_ms: Type.Optional(Nullable(Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))),
    row_count: Type.Optional(Nullable(Count)),
    error: Type.Optional(Nullable(Type.String({ maxLength: 10_000 }))),
  },
  { additionalProperties: false },
)
export type HistoryInput = Static<typeof HistoryInput>

const byId = Type.Object({ id: Id })

export const queriesApi = {
  listSaved: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/queries/saved',
    scope: 'read',
    summary: 'List saved queries by name',
    params: byId,
    query: Type.Object(pageQuery),
    reply: page('queries', SavedQuery),
  },
  save: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/queries/saved',
    scope: 'admin',
    audit: 'query.saved',
    summary: 'Save a query; replaces the query with this id, or else with this name',
    params: byId,
    body: SavedQueryInput,
    reply: SavedQuery,
    status: 201,
  },
  removeSaved: {
    plane: 'management',
    method: 'DELETE',
    path: '/projects/{id}/queries/saved/{query_id}',
    scope: 'admin',
    audit: 'query.deleted',
    summary: 'Delete a saved query',
    params: Type.Object({ id: Id, query_id: Id }),
    reply: Empty,
    status: 204,
  },
  listHistory: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/queries/history',
    scope: 'read',
    summary: 'List recorded queries, newest first; the last 1000 of a project are kept',
    params: byId,
    query: Type.Object(pageQuery),
    reply: page('entries', HistoryEntry),
  },
  record: {
    plane: 'management',
    method: 'POST',
    path: '/projects/{id}/queries/history',
    scope: 'admin',
    audit: 'query.recorded',
    summary: 'Record a query that was run',
    params: byId,
    body: HistoryInput,
    reply: HistoryEntry,
    status: 201,
  },
} as const satisfies Routes
