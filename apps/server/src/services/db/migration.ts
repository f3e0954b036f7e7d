// A migration as it was sent, made ready to run: cut into statements, known by a checksum, refused at once where
// it could not keep its promise of being applied as a whole or not at all.
import { createHash } from 'node:crypto'
import type { Migration as Sent } from '@plinth/contract/db.ts'
import { Refusal } from '#src/kernel/errors.ts'
import { type Statement, splitStatements } from '#src/kernel/postgres/statements.ts'

export interface Migration {
  readonly version: string
  readonly name: string
  readonly statements: readonly Statement[]
  /** Of the statements, so that neither line ends nor what stands after the last of them matters. */
  readonly checksum: string
  readonly hasTransaction: boolean
}

const noTransaction = /^\s*--\s*no-transaction\b/i

/** In order of version. Everything that can be refused without a database is refused here. */
export function parseMigrations(sent: readonly Sent[]): Migration[] {
  const migrations = sent.map(parse).sort(byVersion)
  const twice = migrations.find((each, place) => migrations[place + 1]?.version === each.version)
  if (twice)
    throw new Refusal('invalid_request', `Two migrations have the version ${twice.version}; give one another`)
  return migrations
}

function parse({ version, name = '', sql }: Sent): Migration {
  if (sql.includes('\0') || name.includes('\0'))
    throw new Refusal('invalid_request', `Migration ${version} holds a NUL character`)
  const script = sql.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n')
  const statements = splitStatements(script)
  const migration = {
    version,
    name,
    statements,
    checksum: checksumOf(statements.map(({ text }) => text)),
    hasTransaction: !noTransaction.test(script),
  }
  for (const statement of statements) checkStatement(migration, statement)
  return migration
}

export const checksumOf = (statements: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(statements)).digest('hex')

/** A script that is cut into just these statements again. */
export const scriptOf = (statements: readonly string[]): string =>
  statements.map(text => `${text};\n`).join('\n')

/** Versions are counted, not spelled: 9 comes before 10. */
export function byVersion(a: { version: string }, b: { version: string }): number {
  const [left, right] = [a.version.replace(/^0+(?=\d)/, ''), b.version.replace(/^0+(?=\d)/, '')]
  const isCounted = /^\d+$/.test(left) && /^\d+$/.test(right)
  if (isCounted && left.length !== right.length) return left.length - right.length
  if (left !== right) return left < right ? -1 : 1
  return a.version < b.version ? -1 : a.version > b.version ? 1 : 0
}

export const label = ({ version, name }: { version: string; name: string }): string =>
  name === '' ? version : `${version} (${name})`

/** What psql would do with them is nothing to the database. */
const isForPsqlAlone = ({ words }: Statement) => words[0] === '\\restrict' || words[0] === '\\unrestrict'

/** A migration is one transaction already; what begins or ends one inside it is left out. */
const isOwnTransaction = ({ words: [first, second] }: Statement) =>
  first === 'BEGIN' ||
  (first === 'START' && second === 'TRANSACTION') ||
  ((first === 'COMMIT' || first === 'END') && second !== 'PREPARED')

/** Those that are sent to the database. */
export const statementsToRun = ({ statements, hasTransaction }: Migration): Statement[] =>
  statements.filter(each => !isForPsqlAlone(each) && !(hasTransaction && isOwnTransaction(each)))

function checkStatement(migration: Migration, statement: Statement): void {
  const [first, second, third] = statement.words
  const refuse = (why: string, hint: string) => {
    throw new Refusal(
      'invalid_request',
      `Migration ${label(migration)}, line ${statement.firstLine}: ${why}; ${hint}`,
    )
  }
  if (first?.startsWith('\\') && !isForPsqlAlone(statement))
    refuse(`${first} is a command of psql, not SQL`, 'write what it does as SQL')
  if (first === 'COPY' && / from\s+stdin\b/i.test(statement.text))
    refuse('rows cannot be read from standard input here', 'write them as INSERT (pg_dump --inserts)')
  if (!migration.hasTransaction) return
  const goesBack = first === 'ROLLBACK' || first === 'ABORT'
  const toSavepoint = second === 'TO' || ((second === 'WORK' || second === 'TRANSACTION') && third === 'TO')
  if ((goesBack && !toSavepoint) || (first === 'PREPARE' && second === 'TRANSACTION'))
    refuse(`${first} cannot stand in a migration, which is one transaction`, 'leave it out')
}
