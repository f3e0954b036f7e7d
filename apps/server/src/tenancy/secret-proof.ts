// CONTROL_PLANE_SECRET must never change. The control database stores a proof of the original one, so that the platform
// rejects a wrong secret at start instead of failing later to decrypt.
import { timingSafeEqual } from 'node:crypto'
import { type DeriveKey, hmac } from '#src/kernel/crypto/keys.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import { sql } from '#src/kernel/postgres/sql.ts'

export async function checkSecret(control: Database, deriveKey: DeriveKey): Promise<void> {
  const proof = hmac(deriveKey('secret proof'), 'plinth')
  await control.run(sql`insert into secret_proof (proof) values (${proof}) on conflict do nothing`)
  const stored = await control.row<{ proof: Buffer }>(sql`select proof from secret_proof`)
  if (!stored || stored.proof.length !== proof.length || !timingSafeEqual(stored.proof, proof))
    throw new Error('CONTROL_PLANE_SECRET is not the one this database was made with; put the old one back.')
}
