// The bodies of deliveries. Rows are JSON text from Postgres and are passed on as they are.
import { rowChangeEvent } from './events.ts'

export interface RowChange {
  /** The webhooks that were attached to the table when it changed. */
  readonly webhookIds: readonly string[]
  readonly schema: string
  readonly table: string
  readonly operation: string
  /** JSON text. */
  readonly record: string | undefined
  readonly oldRecord: string | undefined
  /** The row was too large: the records have only the key. */
  readonly isTruncated: boolean
  /** ISO 8601. */
  readonly at: string
}

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

export function rowChangeMessage(projectId: string, change: RowChange): Message {
  const { schema, table, operation, record = 'null', oldRecord = 'null', isTruncated, at } = change
  const event = rowChangeEvent(schema, table, operation)
  const names = `"table":${JSON.stringify(table)},"schema":${JSON.stringify(schema)}`
  const facts = `"event":${JSON.stringify(event)},"project_id":"${projectId}","timestamp":"${at}"`
  const truncated = isTruncated ? ',"is_truncated":true' : ''
  return {
    event,
    body: `{"type":"${operation}",${names},"record":${record},"old_record":${oldRecord},${facts}${truncated}}`,
  }
}

export const authMessage = (projectId: string, { id, kind, data, at }: AuthEventRow): Message => ({
  event: kind,
  body: `{"id":"evt_${id.replaceAll('-', '')}","type":${JSON.stringify(kind)},"project_id":"${projectId}","created_at":"${at}","data":${data}}`,
})
