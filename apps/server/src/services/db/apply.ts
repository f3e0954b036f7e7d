// Runs one migration statement by statement, so that the error names the line of the failed statement.
import type { Applied } from '@plinth/contract/db.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { lineOfError, type ScriptStatement } from '#src/kernel/postgres/statements.ts'
import { inSlices } from '#src/kernel/slices.ts'
import { refusalFromOwnerSql, sqlErrorDetails } from '#src/planes/management/database-refusal.ts'
import { authTriggerCall } from '#src/tenancy/auth-trigger-statements.ts'
import { label, type Migration, statementsToRun } from './migration.ts'
import * as store from './store.ts'

/** Further lines are counted, not listed. */
const maxLinesNamed = 50

/** Applies and records the migration atomically. Without a transaction, statements before the failure stay applied. */
export async function apply(session: Session, migration: Migration): Promise<number> {
  const started = performance.now()
  await store.freshSession(session)
  if (migration.hasTransaction) await inTransaction(session, migration)
  else await outsideTransaction(session, migration)
  return Math.round(performance.now() - started)
}

async function inTransaction(session: Session, migration: Migration): Promise<void> {
  await session.script('begin')
  try {
    await runAll(session, migration)
    await session.script('commit').catch(error => {
      throw atCommit(error, migration, 'Nothing of it was applied')
    })
  } catch (error) {
    await session.script('rollback').catch(() => {})
    throw error
  }
}

const textToSend = (statement: ScriptStatement) => authTriggerCall(statement)?.text ?? statement.text

/** Runs the statements and records them, in the open transaction if there is one. */
export async function runAll(session: Session, migration: Migration): Promise<void> {
  for (const statement of statementsToRun(migration))
    await session.script(textToSend(statement)).catch(async error => {
      throw await failure(error, migration, statement, 'Nothing of it was applied')
    })
  await store.recordMigration(session, migration).catch(error => {
    throw unrecorded(error, migration, 'nothing of it was applied')
  })
}

async function outsideTransaction(session: Session, migration: Migration): Promise<void> {
  const done: ScriptStatement[] = []
  /** The number of statements before the open transaction of the migration itself. */
  let before: number | undefined
  for (const statement of statementsToRun(migration)) {
    await session.script(textToSend(statement)).catch(async error => {
      await session.script('rollback').catch(() => {})
      throw await failure(error, migration, statement, remains(done.slice(0, before), statement))
    })
    const [first, second] = statement.words
    if (first === 'BEGIN' || first === 'START') before ??= done.length
    else if (first === 'ROLLBACK' || first === 'ABORT') {
      if (second !== 'TO') {
        done.length = before ?? done.length
        before = undefined
      }
    } else if (first === 'COMMIT' || first === 'END') before = undefined
    done.push(statement)
  }
  // The migration may have left its own transaction open. Otherwise this is only a warning.
  await session.script('commit').catch(error => {
    throw atCommit(error, migration, remains(done.slice(0, before)))
  })
  await store.recordMigration(session, migration).catch(error => {
    throw unrecorded(error, migration, 'all of it was applied')
  })
}

function remains(done: readonly ScriptStatement[], failed?: ScriptStatement): string {
  const kept =
    done.length === 0
      ? 'It runs without a transaction; nothing was done before'
      : `It runs without a transaction, so the ${linesOf(done)} stay done and it is not recorded`
  return failed?.words.includes('CONCURRENTLY')
    ? `${kept}; an index that is not valid may be left behind, drop it before the next push`
    : kept
}

function linesOf(statements: readonly ScriptStatement[]): string {
  if (statements.length > maxLinesNamed)
    return `first ${statements.length} statements, up to line ${statements.at(-1)!.firstLine},`
  return `statements of line ${statements.map(({ firstLine }) => firstLine).join(', ')}`
}

async function failure(
  error: unknown,
  migration: Migration,
  statement: ScriptStatement,
  outcome: string,
): Promise<Refusal> {
  const sqlError = sqlErrorDetails(error)
  if (!sqlError) return refusalFromOwnerSql(error)
  const refusal = refusalFromOwnerSql(error)
  if (refusal.status >= 500) return refusal
  const { position } = error as { position?: string }
  const line = await inSlices(lineOfError(statement, position === undefined ? undefined : Number(position)))
  const inside = sqlError.context ? `\n${sqlError.context}` : ''
  return new Refusal(
    'migration_failed',
    `Migration ${label(migration)} failed at line ${line}: ${refusal.message}${inside}\n\n${quoted(statement)}\n\n${outcome}`,
    { hint: refusal.hint, details: refusal.details },
  )
}

const atCommit = (error: unknown, migration: Migration, outcome: string): Refusal => {
  const refusal = refusalFromOwnerSql(error)
  if (refusal.status >= 500) return refusal
  return new Refusal(
    'migration_failed',
    `Migration ${label(migration)} failed when it was committed: ${refusal.message}\n\n${outcome}`,
  )
}

const unrecorded = (error: unknown, migration: Migration, outcome: string): Refusal => {
  const refusal = refusalFromOwnerSql(error)
  if (refusal.status >= 500) return refusal
  return new Refusal(
    'migration_failed',
    `Migration ${label(migration)} could not be recorded, ${outcome}: ${refusal.message}`,
  )
}

const maxQuoted = 1000

/** The statement without leading comments. */
function quoted({ text, firstAt }: ScriptStatement): string {
  const own = text.slice(firstAt, firstAt + maxQuoted)
  return firstAt + maxQuoted < text.length ? `${own}…` : own
}

export const appliedAs = (migration: Migration, isOutOfOrder: boolean, durationMs: number): Applied => ({
  ...pendingAs(migration, isOutOfOrder),
  duration_ms: durationMs,
})

export const pendingAs = (
  { version, name, hasTransaction, statements }: Migration,
  isOutOfOrder: boolean,
) => ({
  version,
  name,
  out_of_order: isOutOfOrder,
  has_transaction: hasTransaction,
  statements: statements.length,
})
