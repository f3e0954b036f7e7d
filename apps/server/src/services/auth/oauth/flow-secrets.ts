// Sealed values of a flow: the PKCE verifier and nonce sent to the provider, later the provider's tokens.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Tenant } from '#src/tenancy/directory.ts'

export interface FlowSecrets {
  verifier?: string
  nonce?: string
  providerToken?: string
  providerRefreshToken?: string
}

export const flowContext = ({ id }: Tenant) => `project:${id}:flow`

export const openSecrets = (sealer: Sealer, tenant: Tenant, sealed: string | null): FlowSecrets =>
  sealed === null ? {} : (JSON.parse(sealer.open(sealed, flowContext(tenant))) as FlowSecrets)
