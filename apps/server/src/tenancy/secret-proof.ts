// CONTROL_PLANE_SECRET must never change. The control database stores a proof of the original one, so that the platform
// rejects a wrong secret at start instead of failing later to decrypt.
import { timingSafeEqual } from 'node:crypto'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import type { Session } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

const proofOf = (deriveKey: DeriveKey) => hmac(deriveKey('secret proof'), 'plinth')

export async function checkSecret(control: Session, deriveKey: DeriveKey): Promise<void> {
  await control.run(
    sql`insert into secret_proof (proof) values (${proofOf(deriveKey)}) on conflict do nothing`,
  )
  await checkStored(control, deriveKey)
}

/** Changes nothing. A database that has no proof yet passes. */
export async function checkStoredSecret(control: Session, deriveKey: DeriveKey): Promise<void> {
  const found = await control.row<{ exists: boolean }>(
    sql`select to_regclass('secret_proof') is not null as exists`,
  )
  if (found?.exists && (await control.row(sql`select from secret_proof`)))
    await checkStored(control, deriveKey)
}

async function checkStored(control: Session, deriveKey: DeriveKey): Promise<void> {
  const proof = proofOf(deriveKey)
  const stored = await control.row<{ proof: Buffer }>(sql`select proof from secret_proof`)
  if (!stored || stored.proof.length !== proof.length || !timingSafeEqual(stored.proof, proof))
    throw new Error('CONTROL_PLANE_SECRET is not the one this database was made with; put the old one back.')
}
