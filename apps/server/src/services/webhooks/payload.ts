// The bodies of deliveries. Rows are JSON text from Postgres and are passed on as they are.
import type { RowChange } from './changes-store.ts'
import { rowChangeEvent } from './events.ts'

/** What a delivery tells of a row change. */
export type ChangedRow = Pick<RowChange, 'schema' | 'table' | 'event' | 'new' | 'old' | 'isTruncated' | 'at'>

export interface AuthEventRow {
  readonly id: string
  readonly kind: string
  /** JSON text. */
  readonly data: string
  /** ISO 8601. */
  readonly at: string
}

/** What is sent for one change or event, to any number of webhooks. */
export interface Message {
  event: string
  body: string
}

export function rowChangeMessage(projectId: string, change: ChangedRow): Message {
  const { schema, table, event: operation, new: record = 'null', old = 'null', isTruncated, at } = change
  const event = rowChangeEvent(schema, table, operation)
  const names = `"table":${JSON.stringify(table)},"schema":${JSON.stringify(schema)}`
  const facts = `"event":${JSON.stringify(event)},"project_id":"${projectId}","timestamp":"${at}"`
  const truncated = isTruncated ? ',"is_truncated":true' : ''
  return {
    event,
    body: `{"type":"${operation}",${names},"record":${record},"old_record":${old},${facts}${truncated}}`,
  }
}

export const authMessage = (projectId: string, { id, kind, data, at }: AuthEventRow): Message => ({
  event: kind,
  body: `{"id":"evt_${id.replaceAll('-', '')}","type":${JSON.stringify(kind)},"project_id":"${projectId}","created_at":"${at}","data":${data}}`,
})
