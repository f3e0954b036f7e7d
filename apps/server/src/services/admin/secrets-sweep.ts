// Seals what an older version stored in plain text: project credentials and secrets inside settings.
import { isSealed, type Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'
import { credentialColumns, credentialContext } from '#src/tenancy/credentials.ts'
import { sealSettings } from '#src/tenancy/settings-secrets.ts'

const pageSize = 500

/** Runs at every start: rows are read in pages, and only those with something to seal are locked. */
export async function encryptSettingsSecrets(control: Database, sealer: Sealer) {
  let scanned = 0
  let sealed = 0
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const page = await control.rows<SecretsRow & { id: string }>(sql`
      select id, settings, anon_key, service_role_key, jwt_secret from projects
       where status in ('creating', 'active', 'suspended') and id > ${after}::uuid order by id limit ${pageSize}`)
    for (const row of page)
      if (countPlain(row, row.id, sealer) > 0)
        sealed += await control.transaction(session => sealProject(session, sealer, row.id))
    scanned += page.length
    if (page.length < pageSize) return { projects_scanned: scanned, values_encrypted: sealed }
    after = page.at(-1)!.id
  }
}

const plainColumns = (row: SecretsRow) =>
  credentialColumns.filter(column => row[column] !== '' && !isSealed(row[column]))

const countPlain = (row: SecretsRow, id: string, sealer: Sealer) =>
  plainColumns(row).length + sealSettings(row.settings, id, sealer).sealed

interface SecretsRow {
  settings: Record<string, unknown>
  anon_key: string
  service_role_key: string
  jwt_secret: string
}

async function sealProject(session: Session, sealer: Sealer, id: string): Promise<number> {
  const row = await session.row<SecretsRow>(
    sql`select settings, anon_key, service_role_key, jwt_secret from projects where id = ${id} for update`,
  )
  if (!row) return 0
  const { settings, sealed } = sealSettings(row.settings, id, sealer)
  const plain = plainColumns(row)
  if (sealed + plain.length === 0) return 0
  const stored = Object.fromEntries(
    credentialColumns.map(column => [
      column,
      plain.includes(column) ? sealer.seal(row[column], credentialContext(id, column)) : row[column],
    ]),
  )
  await session.run(sql`
    update projects set settings = ${JSON.stringify(settings)}, anon_key = ${stored['anon_key']},
           service_role_key = ${stored['service_role_key']}, jwt_secret = ${stored['jwt_secret']}
     where id = ${id}`)
  return sealed + plain.length
}
