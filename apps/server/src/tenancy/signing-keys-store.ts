// Statements on the signing keys of projects. Every change runs in a transaction that holds the lock of the project row.
import type { Session } from '#src/kernel/postgres/database.ts'
import { raw, sql } from '#src/kernel/postgres/sql.ts'

export interface SigningKeyRow {
  kid: string
  x: string
  y: string
  /** Sealed. */
  private_key: string | null
  token_seconds: number
  created_at: string
  /** Null for the key that signs. */
  valid_until: string | null
}

/** A node may sign with a replaced key until it has read the change, so the key is valid a little longer than its tokens. */
const marginSeconds = 60

const columns = 'kid, x, y, private_key, token_seconds, created_at, valid_until'
const isThere = sql`status in ('active', 'suspended')`

/** The valid keys of the project of the outer query, as JSON. */
export const validKeysOfProject = sql`
  (select coalesce(jsonb_agg(to_jsonb(valid) order by valid_until desc nulls first, created_at desc), '[]')
     from (select ${raw(columns)} from signing_keys
            where project_id = projects.id and (valid_until is null or valid_until > now())) valid)`

export const lockProjectSettings = (session: Session, projectId: string) =>
  session.row<{ settings: Record<string, unknown> }>(
    sql`select settings from projects where id = ${projectId} and ${isThere} for update`,
  )

export const listKeys = (session: Session, projectId: string) =>
  session.rows<SigningKeyRow>(sql`
    select ${raw(columns)} from signing_keys where project_id = ${projectId}
     order by valid_until desc nulls first, created_at desc`)

export const deleteExpiredKeys = (session: Session, projectId: string) =>
  session.run(sql`delete from signing_keys where project_id = ${projectId} and valid_until <= now()`)

export const deleteKeys = (session: Session, projectId: string) =>
  session.run(sql`delete from signing_keys where project_id = ${projectId}`)

export const insertKey = (
  session: Session,
  projectId: string,
  { kid, x, y, private_key, token_seconds }: Omit<SigningKeyRow, 'created_at' | 'valid_until'>,
) =>
  session.run(sql`
    insert into signing_keys (kid, project_id, x, y, private_key, token_seconds)
    values (${kid}, ${projectId}, ${x}, ${y}, ${private_key}, ${token_seconds})`)

/** Makes this key the one that signs, for tokens of at most this lifetime. */
export const activateKey = (session: Session, kid: string, tokenSeconds: number) =>
  session.run(sql`
    update signing_keys set valid_until = null, token_seconds = greatest(token_seconds, ${tokenSeconds})
     where kid = ${kid}`)

/** The key stops signing, and verifies until its last token has expired. */
export const retireActiveKey = (session: Session, projectId: string) =>
  session.run(sql`
    update signing_keys set valid_until = now() + (token_seconds + ${marginSeconds}) * interval '1 second'
     where project_id = ${projectId} and valid_until is null`)

/** Retired keys of the project can no longer sign. */
export const dropPrivateKeys = (session: Session, projectId: string) =>
  session.run(
    sql`update signing_keys set private_key = null where project_id = ${projectId} and valid_until is not null`,
  )

/** Nodes reload a project whose row has changed. */
export const touchProject = (session: Session, projectId: string) =>
  session.run(sql`update projects set changed = changed where id = ${projectId}`)
