// The ES256 keys of a project in memory. They are loaded with the project, so that every node sees a change of them.
import type { KeyObject } from 'node:crypto'
import { es256PrivateKey, es256PublicKey, publicJwk } from '#src/kernel/crypto/es256.ts'
import type { Es256Signer, JwtKeys } from '#src/kernel/crypto/jwt.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { SigningKeyRow } from './signing-keys-store.ts'

export type PublicJwk = ReturnType<typeof publicJwk>

export interface ActiveKey extends Es256Signer {
  /** The longest lifetime of a token that the key may sign. */
  readonly tokenSeconds: number
}

/** The keys of one tenant object. They are parsed at most once. */
export interface TenantSigningKeys {
  /** The key that signs. Undefined if the project has not needed one. */
  active(): ActiveKey | undefined
  /** The valid key with this id. */
  publicKey(kid: string): KeyObject | undefined
  /** The valid public keys, the one that signs first. */
  jwks(): PublicJwk[]
}

export const noSigningKeys: TenantSigningKeys = {
  active: () => undefined,
  publicKey: () => undefined,
  jwks: () => [],
}

/** Authenticated data of the encryption, so that a key cannot be moved to another project. */
export const keyContext = (projectId: string, kid: string) => `project:${projectId}:signing_key:${kid}`

export function signingKeysFrom(
  projectId: string,
  rows: readonly SigningKeyRow[],
  sealer: Sealer,
): TenantSigningKeys {
  if (rows.length === 0) return noSigningKeys
  const byId = new Map(rows.map(row => [row.kid, row]))
  const validUntil = new Map(
    rows.map(({ kid, valid_until }) => [kid, valid_until === null ? Infinity : Date.parse(valid_until)]),
  )
  const isValid = (kid: string) => (validUntil.get(kid) ?? 0) > Date.now()
  const parsed = new Map<string, KeyObject>()
  let active: ActiveKey | undefined
  return {
    active() {
      const row = active ? undefined : rows.find(({ valid_until }) => valid_until === null)
      if (row?.private_key)
        active = {
          kid: row.kid,
          privateKey: es256PrivateKey(row, sealer.open(row.private_key, keyContext(projectId, row.kid))),
          tokenSeconds: row.token_seconds,
        }
      return active
    },
    publicKey(kid) {
      const row = isValid(kid) ? byId.get(kid) : undefined
      if (!row) return
      const key = parsed.get(kid) ?? es256PublicKey(row)
      parsed.set(kid, key)
      return key
    },
    jwks: () => rows.filter(({ kid }) => isValid(kid)).map(row => publicJwk(row.kid, row)),
  }
}

/** The keys that verify the tokens of the project. */
export const jwtKeysOf = ({
  jwtSecret,
  signingKeys,
}: {
  readonly jwtSecret: string
  readonly signingKeys: TenantSigningKeys
}): JwtKeys => ({
  secret: jwtSecret,
  publicKey: signingKeys.publicKey,
})
