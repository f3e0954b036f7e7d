// What a project has used, in hours, and in days after 90 days.
import type { Static } from 'typebox'
import type { Routes } from './route.ts'
import { Id, Timestamp } from './shapes.ts'
import { Type } from './type.ts'

/** Buckets in one answer. */
export const usageLimits = { usual: 168, most: 5000 }

const Count = Type.Integer({ minimum: 0 })

export const UsageBucket = Type.Object({
  bucket_start: Timestamp,
  requests: { ...Count, description: 'Admitted requests to the data plane.' },
  bytes_in: { ...Count, description: 'Bytes of these requests, with their headers.' },
  bytes_out: { ...Count, description: 'Bytes of the answers, with their headers.' },
  function_invocations: Count,
  storage_bytes: { ...Count, description: 'Bytes of stored files at the end of the bucket, or now.' },
})
export type UsageBucket = Static<typeof UsageBucket>

export const UsageQuery = Type.Object({
  from: Type.Optional(
    Type.String({ format: 'date-time', description: 'Only buckets that start at this time or later.' }),
  ),
  to: Type.Optional(
    Type.String({ format: 'date-time', description: 'Only buckets that start before this time.' }),
  ),
  limit: Type.Optional(
    Type.Integer({ minimum: 1, description: 'Buckets to return (default 168); clamped to 5000.' }),
  ),
})
export type UsageQuery = Static<typeof UsageQuery>

export const usageApi = {
  read: {
    plane: 'management',
    method: 'GET',
    path: '/projects/{id}/usage',
    scope: 'read',
    summary: 'Read the usage of a project, the newest bucket first',
    params: Type.Object({ id: Id }),
    query: UsageQuery,
    reply: Type.Object({
      usage: Type.Array(UsageBucket, {
        description: 'Hours, and days after 90 days. Without those in which nothing was used or stored.',
      }),
    }),
  },
} as const satisfies Routes
