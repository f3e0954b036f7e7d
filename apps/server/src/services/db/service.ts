// Migrations of a project: push, list, reset, and dump of the schema.
import type {
  Applied,
  Plan,
  Pushed,
  RecordedMigration,
  ResetReply,
  Migration as Sent,
} from '@plinth/contract/db.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { type JsonText, jsonTextFrom } from '#src/kernel/json-text.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { jsonFieldPieces, jsonPieces } from '#src/kernel/text-list.ts'
import { refusalFromOwnerSql } from '#src/planes/management/database-refusal.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Databases } from '#src/tenancy/databases.ts'
import { noteRestorePoint } from '#src/tenancy/restore-points.ts'
import type { ShadowDatabases } from '#src/tenancy/shadow-database.ts'
import { appliedAs, apply, pendingAs, runAll } from './apply.ts'
import { markDestructive } from './dump/destructive.ts'
import { differenceScript } from './dump/difference.ts'
import { dataScript } from './dump/rows-store.ts'
import { readSchema, renameRoles, type Schema, schemaScript } from './dump/schema.ts'
import { byVersion, inVersionOrder, label, type Migration, parseMigrations, scriptOf } from './migration.ts'
import { dropEverything } from './reset-store.ts'
import * as store from './store.ts'

export interface ResetInput {
  confirm?: string
  migrations?: Sent[]
  reapply?: boolean
}

export type DbService = ReturnType<typeof dbService>

const lockPatienceMs = 60_000
const lockPollMs = 200

export interface DbDeps {
  control: Session
  owner: OwnerWork
  databases: Databases
  shadows: ShadowDatabases
}

export function dbService({ control, owner, databases, shadows }: DbDeps) {
  /** One push or reset at a time. The advisory lock ends with the connection, also after a crash. */
  async function alone<T>(id: string, work: (session: Session) => Promise<T>): Promise<T> {
    const tenant = await owner.tenant(id)
    return databases.asOwner(tenant, async session => {
      await awaitLock(session)
      try {
        return await work(session)
      } finally {
        await store.unlock(session).catch(() => {})
      }
    })
  }

  return {
    async plan(id: string, sent: readonly Sent[]): Promise<Plan> {
      const migrations = await inSlices(parseMigrations(sent))
      const recorded = await owner.look(id, records)
      return planOf(migrations, recorded)
    },

    async push(id: string, sent: readonly Sent[]): Promise<Pushed> {
      const migrations = await inSlices(parseMigrations(sent))
      return alone(id, async session => {
        const { changed, skipped, pending } = planOf(migrations, await records(session))
        if (changed.length > 0) throw changedSince(changed)
        if (pending.length > 0) await store.createRecords(session).catch(refused)
        const byVersionSent = new Map(migrations.map(migration => [migration.version, migration]))
        const applied: Applied[] = []
        for (const each of pending) {
          const migration = byVersionSent.get(each.version)!
          const ms = await apply(session, migration).catch(error => {
            throw withEarlier(error, applied)
          })
          applied.push(appliedAs(migration, each.out_of_order, ms))
        }
        return { applied, skipped }
      })
    },

    listMigrations: (
      id: string,
      withStatements: boolean,
      { limit, offset }: Paging,
    ): Promise<Page | JsonText> =>
      owner.look(id, async session => {
        const all = inVersionOrder(await records(session))
        const shown = all.slice(offset, offset + limit)
        const page = { total: all.length, limit, offset }
        if (!withStatements || shown.length === 0) return { migrations: shown, ...page }
        const versions = shown.map(({ version }) => version)
        const statements = await store.findStatements(session, versions).catch(refused)
        return jsonTextFrom(withStatementsAsJson(shown, statements, page))
      }),

    /** Dumps the whole schema, or the difference to the recorded migrations. */
    async schema(id: string, isBeyondMigrations: boolean) {
      const actual = await owner.look(id, session => readSchema(session).catch(refused))
      if (!isBeyondMigrations) return script(await inSlices(schemaScript(actual)))
      const migrations = await owner.look(id, recordedMigrations)
      if (migrations.length === 0) return script(await inSlices(schemaScript(actual)))
      const { ref } = await owner.tenant(id)
      const planned = await shadows.within(ref, session => schemaAfter(session, migrations))
      return script(await inSlices(differenceScript(planned, actual)))
    },

    /** What turns the schema of the first project into that of the second: `{is_destructive, sql}`. */
    async difference(fromId: string, toId: string): Promise<JsonText> {
      const [from, to] = await Promise.all(
        [fromId, toId].map(id => owner.look(id, session => readSchema(session).catch(refused))),
      )
      const refs = { from: (await owner.tenant(toId)).ref, to: (await owner.tenant(fromId)).ref }
      const renamed = await inSlices(renameRoles(to!, refs))
      const difference = await inSlices(differenceScript(from!, renamed))
      const { script: marked, isDestructive } = await inSlices(markDestructive(difference))
      return jsonTextFrom(withField('is_destructive', isDestructive, jsonFieldPieces('sql', marked)))
    },

    /** Records the migrations as applied without running them. */
    async record(id: string, sent: readonly Sent[]) {
      const migrations = await inSlices(parseMigrations(sent))
      return alone(id, async session => {
        const { changed, pending, skipped } = planOf(migrations, await records(session))
        if (changed.length > 0) throw changedSince(changed)
        await store.freshSession(session)
        await store.createRecords(session).catch(refused)
        await session.script('begin')
        const isPending = new Set(pending.map(({ version }) => version))
        for (const migration of migrations.filter(({ version }) => isPending.has(version)))
          await store.recordMigration(session, migration).catch(refused)
        await session.script('commit')
        return { recorded: pending.map(({ version, name }) => ({ version, name })), skipped }
      })
    },

    data: async (id: string) => script(await owner.look(id, session => dataScript(session).catch(refused))),

    async reset(id: string, input: ResetInput): Promise<ResetReply> {
      if (input.confirm !== undefined && input.confirm.toLowerCase() !== id)
        throw new Refusal(
          'confirmation_mismatch',
          `"confirm" must repeat the id of the project, ${id}; nothing was done`,
        )
      const given = input.migrations && (await inSlices(parseMigrations(input.migrations)))
      return alone(id, async session => {
        const again = given ?? (input.reapply ? await recordedMigrations(session) : [])
        await noteRestorePoint(control, 'reset', id)
        return resetTo(session, again, await records(session))
      })
    },
  }
}

/** The schema that these migrations create in an empty project. */
async function schemaAfter(session: Session, migrations: readonly Migration[]): Promise<Schema> {
  await store.createRecords(session)
  for (const migration of migrations)
    await apply(session, migration).catch(error => {
      throw notReplayable(error)
    })
  await store.freshSession(session)
  await session.script('begin isolation level repeatable read read only')
  return readSchema(session)
}

/** One transaction up to the first migration that must run outside of one. From there on each migration is separate. */
async function resetTo(
  session: Session,
  again: readonly Migration[],
  recorded: readonly store.MigrationRecord[],
): Promise<ResetReply> {
  const firstOutside = again.findIndex(({ hasTransaction }) => !hasTransaction)
  const inside = firstOutside < 0 ? again : again.slice(0, firstOutside)
  const applied: Applied[] = []
  await store.freshSession(session)
  await session.script('begin')
  let dropped: ResetReply['dropped']
  try {
    dropped = await dropEverything(session).catch(refused)
    await store.createRecords(session).catch(refused)
    await store.forgetMigrations(session).catch(refused)
    for (const migration of inside) {
      const started = performance.now()
      await store.freshSession(session)
      await runAll(session, migration)
      applied.push(appliedAs(migration, false, Math.round(performance.now() - started)))
    }
    await session.script('commit').catch(refused)
  } catch (error) {
    await session.script('rollback').catch(() => {})
    throw asItWas(error)
  }
  for (const migration of again.slice(inside.length))
    applied.push(
      appliedAs(
        migration,
        false,
        await apply(session, migration).catch(error => {
          throw withEarlier(error, applied)
        }),
      ),
    )
  const forgotten = inVersionOrder(recorded.map(({ version, name }) => ({ version, name })))
  return { dropped, forgotten, applied }
}

/** Polls for the lock. A session that waits in Postgres holds a snapshot, which blocks CREATE INDEX CONCURRENTLY. */
async function awaitLock(session: Session): Promise<void> {
  const deadline = performance.now() + lockPatienceMs
  while (!(await store.tryLock(session))) {
    if (performance.now() > deadline)
      throw new Refusal(
        'migrations_busy',
        'Another push or reset is running on this project; try again when it has ended',
        { headers: { 'retry-after': '10' } },
      )
    await new Promise(resolve => setTimeout(resolve, lockPollMs))
  }
}

function planOf(migrations: readonly Migration[], recorded: readonly store.MigrationRecord[]): Plan {
  const known = new Map(recorded.map(record => [record.version, record]))
  const sent = new Set(migrations.map(({ version }) => version))
  const newest = inVersionOrder(recorded).at(-1)
  const isSame = ({ version, checksum }: Migration) => {
    const record = known.get(version)
    // A migration recorded by another tool has no checksum.
    return record !== undefined && (record.checksum === null || record.checksum === checksum)
  }
  const named = ({ version, name }: { version: string; name: string }) => ({ version, name })
  return {
    pending: migrations
      .filter(({ version }) => !known.has(version))
      .map(each => pendingAs(each, newest !== undefined && byVersion(each, newest) < 0)),
    skipped: migrations.filter(isSame).map(named),
    changed: migrations.filter(each => known.has(each.version) && !isSame(each)).map(named),
    missing: inVersionOrder(recorded.filter(({ version }) => !sent.has(version))).map(named),
  }
}

/** The owner can change this table, so its Postgres errors are reported to the owner. */
const records = (session: Session) => store.findRecords(session).catch(refused)

/** The applied migrations, prepared to run again. */
async function recordedMigrations(session: Session): Promise<Migration[]> {
  const known = await records(session)
  if (known.length === 0) return []
  const versions = known.map(({ version }) => version)
  const statements = await store.findStatements(session, versions).catch(refused)
  const sent = known.map(record => {
    const own = statements.get(record.version)
    if (own) return { version: record.version, name: record.name, sql: scriptOf(own) }
    throw new Refusal(
      'invalid_request',
      `Migration ${label(record)} was recorded without its statements: send the migrations to apply in "migrations"`,
    )
  })
  // Recorded over time, they may have more statements than the limit of one request.
  return inSlices(parseMigrations(sent, Number.POSITIVE_INFINITY))
}

const changedSince = (changed: Plan['changed']) =>
  new Refusal(
    'migration_changed',
    `Applied already, but not with this text: migration ${changed.map(label).join(', ')}. Nothing of this push was applied; put the file back as it was and write the change as a new migration`,
  )

/** The migrations of a failed push that stay applied. */
function withEarlier(error: unknown, applied: readonly Applied[]): unknown {
  if (!(error instanceof Refusal) || error.code !== 'migration_failed') return error
  if (applied.length === 0) return error
  const { message, hint, details } = error
  const before = `Applied before it: ${applied.map(label).join(', ')}`
  return new Refusal('migration_failed', `${message}. ${before}`, { hint, details })
}

function notReplayable(error: unknown): unknown {
  if (!(error instanceof Refusal) || error.code !== 'migration_failed') return error
  return new Refusal(
    'migration_failed',
    `The recorded migrations cannot be applied to an empty project, so what was made besides them is unknown. ${error.message}`,
  )
}

function asItWas(error: unknown): unknown {
  if (!(error instanceof Refusal) || error.status >= 500) return error
  const { message, hint, details } = error
  return new Refusal('migration_failed', `${message}. The reset was undone: everything is as it was`, {
    hint,
    details,
  })
}

interface Page {
  migrations: RecordedMigration[]
  total: number
  limit: number
  offset: number
}

/** Encoded in slices, because the statements of all migrations can be large. */
function* withStatementsAsJson(
  shown: readonly store.MigrationRecord[],
  statements: ReadonlyMap<string, string[] | null>,
  page: object,
): Generator<string> {
  yield `${JSON.stringify(page).slice(0, -1)},"migrations":[`
  for (const [place, record] of shown.entries()) {
    yield `${place === 0 ? '' : ','}${JSON.stringify(record).slice(0, -1)},"statements":`
    const own = statements.get(record.version)
    if (own) yield* jsonPieces(own)
    else yield 'null'
    yield '}'
  }
  yield ']}'
}

/** Adds a field at the beginning of an object. */
function* withField(
  name: string,
  value: unknown,
  [first = '', ...pieces]: Iterable<string>,
): Generator<string> {
  yield `{${JSON.stringify(name)}:${JSON.stringify(value)},${first.slice(1)}`
  yield* pieces
}

/** `{sql}` */
const script = (pieces: readonly string[]): Promise<JsonText> => jsonTextFrom(jsonFieldPieces('sql', pieces))

const refused = (error: unknown): never => {
  throw refusalFromOwnerSql(error)
}
