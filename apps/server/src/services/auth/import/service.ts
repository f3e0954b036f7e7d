// Imports up to a thousand users per call with one statement. If it fails, the batch is halved until the failing record
// is found, so that an invalid record blocks no other. An interrupted call leaves no incomplete user.
import type { ImportReply, ImportResult } from '@plinth/contract/users.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { inSlices, type Sliced } from '#src/kernel/slices.ts'
import { sqlErrorDetails } from '#src/planes/management/database-refusal.ts'
import type { AuthDatabase } from '#src/tenancy/auth-pools.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { type ImportedUser, type ReadRecord, readRecord } from './record.ts'
import { findTaken, insertImported } from './store.ts'

type ReadUser = Extract<ReadRecord, { user: ImportedUser }>
type Outcome = Pick<ImportResult, 'status' | 'reason'>
/** By user id. */
type Outcomes = Map<string, Outcome>

/** Records parsed before yielding to the event loop. Each has at most 8 kB of metadata. */
const recordsPerSlice = 50

const skipped = (reason: string): Outcome => ({ status: 'skipped', reason })
const failed = (reason: string): Outcome => ({ status: 'error', reason })

/** A trigger of the project may be slow for each user. After the timeout the remaining records fail. */
export const createImport =
  (databases: Databases, timeoutMs = 30_000) =>
  async (tenant: Tenant, records: readonly unknown[]): Promise<ImportReply> => {
    const read = await inSlices(readDistinct(records))
    const users = read.flatMap(each => ('user' in each ? [each.user] : []))
    const outcomes: Outcomes = new Map()
    const deadline = performance.now() + timeoutMs
    if (users.length > 0) await write(databases.auth(tenant), users, outcomes, deadline)
    const results = read.map((each, index) =>
      'user' in each
        ? { email: each.user.email, id: each.user.id, ...outcomes.get(each.user.id)! }
        : { ...labelOf(records[index]), ...each.outcome },
    )
    const counted = (status: ImportResult['status']) =>
      results.filter(result => result.status === status).length
    return {
      imported: counted('created'),
      skipped: counted('skipped'),
      failed: counted('error'),
      results,
    }
  }

/** Of several records with the same address or id, only the first is imported. */
function* readDistinct(records: readonly unknown[]): Sliced<(ReadUser | { outcome: Outcome })[]> {
  const emails = new Set<string>()
  const ids = new Set<string>()
  const outcomeOf = (read: ReadRecord): ReadUser | { outcome: Outcome } => {
    if ('error' in read) return { outcome: failed(read.error) }
    const { email, id } = read.user
    if (emails.has(email)) return { outcome: skipped('An earlier record has this e-mail address') }
    if (ids.has(id)) return { outcome: failed('An earlier record has this id') }
    emails.add(email)
    ids.add(id)
    return read
  }
  const all: (ReadUser | { outcome: Outcome })[] = []
  for (const record of records) {
    all.push(outcomeOf(readRecord(record)))
    if (all.length % recordsPerSlice === 0) yield
  }
  return all
}

async function write(
  database: AuthDatabase,
  users: readonly ImportedUser[],
  outcomes: Outcomes,
  deadline: number,
): Promise<void> {
  const setAll = (outcome: Outcome) => users.forEach(({ id }) => void outcomes.set(id, outcome))
  if (performance.now() > deadline) return setAll(failed('The call took too long; import this record again'))
  try {
    const found = await database.transaction(session => insertAll(session, users))
    for (const [id, outcome] of found) outcomes.set(id, outcome)
  } catch (error) {
    const sqlError = sqlErrorDetails(error)
    if (!sqlError) throw error
    if (users.length === 1) return setAll(failed(`${sqlError.message} (SQLSTATE ${sqlError.sqlState})`))
    const half = Math.ceil(users.length / 2)
    await write(database, users.slice(0, half), outcomes, deadline)
    await write(database, users.slice(half), outcomes, deadline)
  }
}

async function insertAll(session: Session, users: readonly ImportedUser[]): Promise<Outcomes> {
  const inserted = await insertImported(session, users)
  const left = users.filter(({ id }) => !inserted.has(id))
  const taken = left.length > 0 ? await findTaken(session, left) : []
  const byEmail = new Map(taken.map(({ email, id }) => [email, id]))
  const ids = new Set(taken.map(({ id }) => id))
  const outcomeOf = ({ id, email }: ImportedUser): Outcome => {
    if (inserted.has(id)) return { status: 'created' }
    const owner = byEmail.get(email)
    if (owner) return skipped(`The user ${owner} has this e-mail address`)
    return failed(
      ids.has(id) ? 'Another user has this id' : 'A trigger of the project on auth.users left it out',
    )
  }
  return new Map(users.map(user => [user.id, outcomeOf(user)]))
}

/** Address and id of an invalid record, shortened for the answer. */
function labelOf(record: unknown): { email: string | null; id: string | null } {
  const { email, id } = (record ?? {}) as { email?: unknown; id?: unknown }
  const text = (value: unknown) => (typeof value === 'string' ? value.slice(0, 320) : null)
  return { email: text(email), id: text(id) }
}
