import assert from 'node:assert/strict'
import type { UsageBucket } from '@plinth/contract/usage.ts'
import { call } from './harness.ts'

interface Node {
  url: string
  adminToken: string
}

export async function usageOf({ url, adminToken }: Node, id: string, query = ''): Promise<UsageBucket[]> {
  const reply = await call(`${url}/api/v1/projects/${id}/usage${query}`, 'GET', { token: adminToken })
  assert.equal(reply.status, 200, JSON.stringify(reply.body))
  return reply.body.usage
}

type Counted = Exclude<keyof UsageBucket, 'bucket_start' | 'storage_bytes'>

/** The sum over all buckets, because a test may run across the end of an hour. */
export const total = (usage: readonly UsageBucket[], field: Counted) =>
  usage.reduce((sum, bucket) => sum + bucket[field], 0)
