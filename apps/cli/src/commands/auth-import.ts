// Users from another platform: a file of records goes over in as many calls as it takes.
import type { ImportResult } from '@plinth/contract/users.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { connect } from '../platform.ts'
import { table } from '../print.ts'
import { projectId } from '../project.ts'

/** What the platform takes in one call, with room to spare in bytes. */
const maxRecords = 1000
const maxBytes = 4 * 1024 * 1024

export async function importUsers(context: Context): Promise<Answer> {
  const records = await recordsIn(context.given.operands['file']!)
  const platform = connect(context)
  const id = await projectId(context, platform)
  const counts = { imported: 0, skipped: 0, failed: 0 }
  const problems: ({ record: number } & ImportResult)[] = []
  let sent = 0
  for (const users of batches(records)) {
    const reply = await platform.users.import({ params: { id }, body: { users } })
    counts.imported += reply.imported
    counts.skipped += reply.skipped
    counts.failed += reply.failed
    for (const [index, result] of reply.results.entries())
      if (result.status !== 'created') problems.push({ record: sent + index + 1, ...result })
    sent += users.length
    if (sent < records.length) context.screen.progress(`${sent} of ${records.length} records`)
  }
  const { imported, skipped, failed } = counts
  return {
    data: { ...counts, problems },
    text: paint =>
      [
        ...(problems.length > 0
          ? [
              table(
                paint,
                ['RECORD', 'EMAIL', 'STATUS', 'WHY'],
                problems.map(each => [each.record, each.email, each.status, each.reason ?? null]),
              ),
              '',
            ]
          : []),
        `Imported ${imported} of ${records.length} users; ${skipped} skipped, ${failed} failed.`,
      ].join('\n'),
    hints:
      failed > 0 ? ['Correct the records that failed and run it again: those imported are skipped.'] : [],
  }
}

function* batches(records: readonly unknown[]): Generator<unknown[]> {
  let batch: unknown[] = []
  let bytes = 0
  for (const record of records) {
    const size = Buffer.byteLength(JSON.stringify(record) ?? '')
    if (batch.length === maxRecords || (batch.length > 0 && bytes + size > maxBytes)) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(record)
    bytes += size
  }
  if (batch.length > 0) yield batch
}

async function recordsIn(file: string): Promise<unknown[]> {
  const where = file === '-' ? 'Standard input' : file
  const content = await contentOf(file).catch(cause => {
    throw new Failure('file_unreadable', `${where} cannot be read: ${(cause as Error).message}.`, null, cause)
  })
  try {
    const parsed = JSON.parse(content) as unknown
    const records = Array.isArray(parsed) ? parsed : (parsed as { users?: unknown } | null)?.users
    if (Array.isArray(records)) return records
  } catch (cause) {
    throw notRecords(where, (cause as Error).message, cause)
  }
  throw notRecords(where, 'it must hold a list of records, or an object with "users"')
}

async function contentOf(file: string): Promise<string> {
  if (file === '-') return (await import('node:stream/consumers')).text(process.stdin)
  return (await import('node:fs/promises')).readFile(file, 'utf8')
}

const notRecords = (where: string, why: string, cause?: unknown) =>
  new Failure(
    'file_invalid',
    `${where} holds no users: ${why}.`,
    'plinth auth users import --help shows what it holds.',
    cause,
  )
