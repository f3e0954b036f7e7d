// Changes of the ES256 keys of a project, for the management API.
import type { RotatedSigningKey } from '@plinth/contract/users.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { SigningKeys } from '#src/tenancy/signing-keys.ts'
import { authSettingsFrom, settingsOf } from './settings.ts'
import type { Tokens } from './tokens.ts'

/** Called after a change of settings, so that the JWKS has the key before the first token. */
export const createPrepareSigning =
  (directory: Pick<Directory, 'read'>, tokens: Pick<Tokens, 'prepare'>) =>
  async (projectId: string): Promise<void> => {
    const tenant = await directory.read(projectId)
    if (tenant) await tokens.prepare(tenant, settingsOf(tenant))
  }

export const createRotateSigningKey =
  (signingKeys: Pick<SigningKeys, 'rotate'>) =>
  async (projectId: string): Promise<RotatedSigningKey> => {
    const rotated = await signingKeys.rotate(projectId, settings => {
      const { jwt_algorithm: algorithm, session_duration_seconds: seconds } = authSettingsFrom(settings)
      if (algorithm !== 'ES256') throw notAsymmetric()
      return seconds
    })
    return { algorithm: 'ES256', ...rotated }
  }

const notAsymmetric = () =>
  new Refusal(
    'asymmetric_signing_disabled',
    'The project signs access tokens with HS256. Set "jwt_algorithm" to "ES256" with PATCH /projects/{id}/auth, or replace the secret with POST /projects/{id}/rotate/jwt',
  )
