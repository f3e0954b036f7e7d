// Reads the merged log of a project as a client does.
import assert from 'node:assert/strict'
import type { LogEntry, LogsPage } from '@plinth/contract/logs.ts'
import type { TestPlatform } from './harness.ts'

export async function readLogs(
  { call, adminToken }: TestPlatform,
  projectId: string,
  query = '',
  token = adminToken,
): Promise<LogsPage> {
  const { status, body } = await call('GET', `/api/v1/projects/${projectId}/logs?${query}`, { token })
  assert.equal(status, 200, JSON.stringify(body))
  return body
}

/** All pages, the latest entry first. */
export async function readWholeLog(
  platform: TestPlatform,
  projectId: string,
  query = '',
  token?: string,
): Promise<LogEntry[]> {
  const logs: LogEntry[] = []
  let before: string | null = null
  do {
    const page: LogsPage = await readLogs(
      platform,
      projectId,
      `${query}${before === null ? '' : `&before=${before}`}`,
      token,
    )
    logs.push(...page.logs)
    before = page.next_before
  } while (before !== null)
  return logs
}
