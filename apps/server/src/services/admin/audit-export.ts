// Streams the audit log page by page, so that memory use does not depend on its size.
import { Readable } from 'node:stream'
import type { AuditEntry } from '@plinth/contract/admin.ts'
import type { RawReply } from '#src/kernel/http/request.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { type AuditFilter, type AuditPosition, entriesAfter, newestEntryId } from './audit-store.ts'

const pageSize = 1000

export async function exportAudit(
  control: Database,
  filter: AuditFilter,
  format: 'json' | 'csv',
): Promise<RawReply> {
  const upTo = await newestEntryId(control)
  const pages = readPages(control, filter, upTo)
  const [contentType, write] =
    format === 'csv' ? (['text/csv', csv] as const) : (['application/json', json] as const)
  return {
    status: 200,
    headers: {
      'content-type': `${contentType}; charset=utf-8`,
      'content-disposition': `attachment; filename="audit.${format}"`,
    },
    body: Readable.from(write(pages)),
  }
}

async function* readPages(
  control: Database,
  filter: AuditFilter,
  upTo: string,
): AsyncGenerator<AuditEntry[]> {
  let last: AuditPosition = { at: '-infinity', id: '0' }
  for (;;) {
    const page = await entriesAfter(control, filter, last, upTo, pageSize)
    if (page.length === 0) return
    yield page.map(({ position, ...entry }) => entry)
    last = page.at(-1)!.position
  }
}

async function* json(pages: AsyncIterable<AuditEntry[]>): AsyncGenerator<string> {
  let separator = '['
  for await (const page of pages) {
    yield separator + page.map(entry => JSON.stringify(entry)).join(',\n')
    separator = ',\n'
  }
  yield separator === '[' ? '[]' : ']'
}

const columns = [
  'id',
  'at',
  'actor_kind',
  'actor_id',
  'actor',
  'action',
  'target',
  'project_id',
  'ip',
  'request_id',
]

async function* csv(pages: AsyncIterable<AuditEntry[]>): AsyncGenerator<string> {
  yield `${columns.join(',')}\r\n`
  for await (const page of pages) yield page.map(line).join('')
}

function line({ id, at, actor, action, target, project_id, ip, request_id }: AuditEntry): string {
  const values = [id, at, actor.kind, actor.id, actor.label, action, target, project_id, ip, request_id]
  return `${values.map(cell).join(',')}\r\n`
}

/** Quotes a value if needed, and prefixes a leading sign, because spreadsheets would evaluate it as a formula. */
function cell(value: string | null): string {
  if (value === null) return ''
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
