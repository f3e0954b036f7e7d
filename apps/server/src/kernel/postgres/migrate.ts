// Applies forward-only migrations from numbered .sql files, and functions whenever their text changes. Each file is
// applied in one transaction together with the row that records it.
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Session } from './database.ts'
import { literal, raw, sql } from './sql.ts'

export interface Migration {
  name: string
  text: string
  /** Applied again when its text changes (CREATE OR REPLACE), after all numbered ones. */
  isRepeatable: boolean
  hash: string
}

export function readMigrations(folder: string): Migration[] {
  const read = (directory: string, isRepeatable: boolean) =>
    readdirSync(directory, { withFileTypes: true })
      .filter(entry => entry.isFile() && entry.name.endsWith('.sql'))
      .map(entry => entry.name)
      .sort()
      .map(file => {
        const text = readFileSync(join(directory, file), 'utf8')
        return { name: file.replace(/\.sql$/, ''), text, isRepeatable, hash: sha256(text) }
      })
  const hasFunctions = readdirSync(folder).includes('functions')
  return [...read(folder, false), ...(hasFunctions ? read(join(folder, 'functions'), true) : [])]
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** An identifier of the state of a database that has all these migrations. */
export const versionOf = (migrations: readonly Migration[]): string =>
  sha256(
    migrations.map(({ name, hash, isRepeatable }) => (isRepeatable ? name + hash : name)).join('\n'),
  ).slice(0, 16)

/** The migrations that a database does not have yet. Undefined if it has none, because it is new. */
export async function listMissing(
  session: Session,
  table: string,
  migrations: readonly Migration[],
): Promise<Migration[] | undefined> {
  const found = await session.row<{ exists: boolean }>(
    sql`select to_regclass(${table}) is not null as exists`,
  )
  if (!found?.exists) return
  const known = await session.rows<{ name: string; hash: string }>(raw(`select name, hash from ${table}`))
  const applied = new Map(known.map(({ name, hash }) => [name, hash]))
  return applied.size === 0
    ? undefined
    : migrations.filter(({ name, hash, isRepeatable }) =>
        isRepeatable ? applied.get(name) !== hash : !applied.has(name),
      )
}

/** Numbered migrations that a database has and this release does not know, because they are of a newer one. */
export async function listUnknown(
  session: Session,
  table: string,
  migrations: readonly Migration[],
): Promise<string[]> {
  const applied = await session.rows<{ name: string }>(
    raw(`select name from ${table} where name ~ '^[0-9]' order by name`),
  )
  const known = new Set(migrations.map(({ name }) => name))
  return applied.map(({ name }) => name).filter(name => !known.has(name))
}

/** Applies the missing migrations and returns their number. The schema of the table must exist. */
export async function migrate(
  session: Session,
  table: string,
  migrations: readonly Migration[],
): Promise<number> {
  await session.script(
    `create table if not exists ${table} (name text primary key, hash text not null, applied_at timestamptz not null default now())`,
  )
  const missing = (await listMissing(session, table, migrations)) ?? migrations
  // Outside a transaction, one simple query is one, so the change and its record are atomic.
  for (const { name, text, hash } of missing)
    await session.script(`${text}
      ;insert into ${table} (name, hash) values (${literal(name)}, ${literal(hash)})
      on conflict (name) do update set hash = excluded.hash, applied_at = now()`)
  return missing.length
}
