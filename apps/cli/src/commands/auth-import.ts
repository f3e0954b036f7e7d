// Imports users from a file of records, in several requests if necessary.
import type { ImportResult } from '@plinth/contract/users.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { inputName, readInput } from '../input-file.ts'
import { table } from '../print.ts'
import { openProject } from '../project.ts'

/** Limits of one request; the limit of bytes is below the one of the platform. */
const maxRecords = 1000
const maxBytes = 4 * 1024 * 1024

export async function importUsers(context: Context): Promise<Answer> {
  const file = context.given.operands['file']!
  const records = recordsIn(await readInput(context, file), inputName(file))
  const { platform, id } = await openProject(context)
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
      failed > 0 ? ['Correct the records that failed and run it again. Imported records are skipped.'] : [],
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

function recordsIn(content: string, where: string): unknown[] {
  try {
    const parsed = JSON.parse(content) as unknown
    const records = Array.isArray(parsed) ? parsed : (parsed as { users?: unknown } | null)?.users
    if (Array.isArray(records)) return records
  } catch (cause) {
    throw notRecords(where, (cause as Error).message, cause)
  }
  throw notRecords(where, 'it must contain a list of records, or an object with "users"')
}

const notRecords = (where: string, why: string, cause?: unknown) =>
  new Failure(
    'file_invalid',
    `${where} contains no users: ${why}.`,
    'plinth auth users import --help shows the format.',
    cause,
  )
