// Prepares a migration: splits it into statements, computes its checksum, and rejects statements that prevent atomic
// application.
import { createHash } from 'node:crypto'
import type { Migration as Sent } from '@plinth/contract/db.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { maxStatements, type ScriptStatement, splitStatements } from '#src/kernel/postgres/statements.ts'
import type { Sliced } from '#src/kernel/slices.ts'
import { jsonPieces, piecesOf } from '#src/kernel/text-list.ts'

export interface Migration {
  readonly version: string
  readonly name: string
  readonly statements: readonly ScriptStatement[]
  /** Covers the statements only, so line endings and trailing comments have no effect. */
  readonly checksum: string
  readonly hasTransaction: boolean
}

const noTransaction = /^\s*--\s*no-transaction\b/i
const longestFirstLine = 10_000

/**
 * Sorted by version. Performs all checks that need no database. All migrations together have at most `max` statements.
 */
export function* parseMigrations(sent: readonly Sent[], max = maxStatements): Sliced<Migration[]> {
  const migrations: Migration[] = []
  let left = max
  for (const each of sent) {
    const migration = yield* parse(each, left)
    left -= migration.statements.length
    migrations.push(migration)
  }
  const sorted = inVersionOrder(migrations)
  const twice = sorted.find((each, place) => sorted[place + 1]?.version === each.version)
  if (twice)
    throw new Refusal('invalid_request', `Two migrations have the version ${twice.version}; give one another`)
  return sorted
}

function* parse({ version, name = '', sql }: Sent, max: number): Sliced<Migration> {
  if (sql.includes('\0') || name.includes('\0'))
    throw new Refusal('invalid_request', `Migration ${version} holds a NUL character`)
  const script = yield* withPlainLineEnds(sql.startsWith('\uFEFF') ? sql.slice(1) : sql)
  const statements = yield* splitStatements(script, max)
  const migration = {
    version,
    name,
    statements,
    checksum: yield* checksumOf(statements.map(({ text }) => text)),
    hasTransaction: !noTransaction.test(script.slice(0, longestFirstLine)),
  }
  for (const statement of statements) checkStatement(migration, statement)
  return migration
}

function* withPlainLineEnds(sql: string): Sliced<string> {
  if (!sql.includes('\r\n')) return sql
  const lines: string[] = []
  let held = ''
  for (const piece of piecesOf(sql)) {
    const text = held + piece
    // The line feed may be the first character of the next chunk.
    held = text.endsWith('\r') ? '\r' : ''
    lines.push(text.slice(0, text.length - held.length).replaceAll('\r\n', '\n'))
    yield
  }
  return lines.join('') + held
}

export function* checksumOf(statements: readonly string[]): Sliced<string> {
  const hash = createHash('sha256')
  for (const piece of jsonPieces(statements)) {
    hash.update(piece)
    yield
  }
  return hash.digest('hex')
}

/** Builds a script that splits into the same statements. */
export const scriptOf = (statements: readonly string[]): string =>
  statements.map(text => `${text};\n`).join('\n')

/** Versions are compared as numbers: 9 comes before 10. */
export const byVersion = (a: { version: string }, b: { version: string }): number =>
  compared(orderOf(a), orderOf(b))

/** Parses each version once before sorting. */
export const inVersionOrder = <T extends { version: string }>(items: readonly T[]): T[] =>
  items
    .map(item => ({ item, order: orderOf(item) }))
    .sort((a, b) => compared(a.order, b.order))
    .map(({ item }) => item)

interface Order {
  version: string
  digits: string
  isCounted: boolean
}

function orderOf({ version }: { version: string }): Order {
  const digits = version.replace(/^0+(?=\d)/, '')
  return { version, digits, isCounted: /^\d+$/.test(digits) }
}

function compared(a: Order, b: Order): number {
  if (a.isCounted && b.isCounted && a.digits.length !== b.digits.length)
    return a.digits.length - b.digits.length
  if (a.digits !== b.digits) return a.digits < b.digits ? -1 : 1
  return a.version < b.version ? -1 : a.version > b.version ? 1 : 0
}

export const label = ({ version, name }: { version: string; name: string }): string =>
  name === '' ? version : `${version} (${name})`

/** Backslash commands of psql are not SQL. */
const isForPsqlAlone = ({ words }: ScriptStatement) =>
  words[0] === '\\restrict' || words[0] === '\\unrestrict'

/** A migration already runs in a transaction, so BEGIN and COMMIT around it are removed. */
const isOwnTransaction = ({ words: [first, second] }: ScriptStatement) =>
  first === 'BEGIN' ||
  (first === 'START' && second === 'TRANSACTION') ||
  ((first === 'COMMIT' || first === 'END') && second !== 'PREPARED')

/** The statements that are sent to the database. */
export const statementsToRun = ({ statements, hasTransaction }: Migration): ScriptStatement[] =>
  statements.filter(each => !isForPsqlAlone(each) && !(hasTransaction && isOwnTransaction(each)))

function checkStatement(migration: Migration, statement: ScriptStatement): void {
  const [first, second, third] = statement.words
  const refuse = (why: string, hint: string) => {
    throw new Refusal(
      'invalid_request',
      `Migration ${label(migration)}, line ${statement.firstLine}: ${why}; ${hint}`,
    )
  }
  if (first?.startsWith('\\') && !isForPsqlAlone(statement))
    refuse(`${first} is a command of psql, not SQL`, 'write what it does as SQL')
  if (statement.copies === 'STDIN')
    refuse('rows cannot be read from standard input here', 'write them as INSERT (pg_dump --inserts)')
  if (!migration.hasTransaction) return
  const goesBack = first === 'ROLLBACK' || first === 'ABORT'
  const toSavepoint = second === 'TO' || ((second === 'WORK' || second === 'TRANSACTION') && third === 'TO')
  if ((goesBack && !toSavepoint) || (first === 'PREPARE' && second === 'TRANSACTION'))
    refuse(`${first} cannot stand in a migration, which is one transaction`, 'leave it out')
}
