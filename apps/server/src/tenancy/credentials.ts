// The credentials of a project: their format, and the context each is encrypted with.
import { randomToken } from '#src/kernel/crypto/keys.ts'

export const credentialColumns = ['anon_key', 'service_role_key', 'jwt_secret'] as const
export type CredentialColumn = (typeof credentialColumns)[number]

/** Authenticated data of the encryption, so that a value cannot be moved to another column or project. */
export const credentialContext = (projectId: string, column: CredentialColumn) =>
  `project:${projectId}:${column}`

export const newAnonKey = (slug: string) => `platform_anon_${slug}_${randomToken()}`
export const newServiceRoleKey = (slug: string) => `platform_service_role_${slug}_${randomToken()}`
export const newJwtSecret = () => randomToken(48)

/** Opaque, because all tenants can read the names of databases and roles. */
export function newRef(): string {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567'
  return `p_${[...crypto.getRandomValues(new Uint8Array(20))].map(byte => letters[byte % 32]).join('')}`
}
