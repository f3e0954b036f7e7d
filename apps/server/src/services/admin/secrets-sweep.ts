// Seals project credentials and secrets in settings that an older version stored in plain text.
import { isSealed, type Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import { credentialColumns, credentialContext } from '#src/tenancy/credentials.ts'
import { sealSettings } from '#src/tenancy/settings-secrets.ts'
import { listSecrets, lockSecrets, type SecretsRow, saveSecrets } from './secrets-store.ts'

const pageSize = 500

/** Runs at every start, so it reads rows in pages and locks only those with something to seal. */
export async function encryptSettingsSecrets(control: Database, sealer: Sealer) {
  let scanned = 0
  let sealed = 0
  for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
    const page = await listSecrets(control, after, pageSize)
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

async function sealProject(session: Session, sealer: Sealer, id: string): Promise<number> {
  const row = await lockSecrets(session, id)
  if (!row) return 0
  const { settings, sealed } = sealSettings(row.settings, id, sealer)
  const plain = plainColumns(row)
  if (sealed + plain.length === 0) return 0
  const stored = (column: (typeof credentialColumns)[number]) =>
    plain.includes(column) ? sealer.seal(row[column], credentialContext(id, column)) : row[column]
  await saveSecrets(session, id, {
    settings,
    anon_key: stored('anon_key'),
    service_role_key: stored('service_role_key'),
    jwt_secret: stored('jwt_secret'),
  })
  return sealed + plain.length
}
