// Signing secrets are stored encrypted and shown once. A rotation keeps the previous secret for some time.
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { createSign, type Sign } from './signature.ts'

export interface SealedSecrets {
  id: string
  project_id: string
  secret: string
  /** Null when it is no longer valid. */
  previous_secret: string | null
}

/** Bound to the project, so that a sealed secret of another project does not open. */
const context = (projectId: string, webhookId: string) => `project:${projectId}:webhook:${webhookId}`

export const sealSecret = (sealer: Sealer, projectId: string, webhookId: string, secret: string) =>
  sealer.seal(secret, context(projectId, webhookId))

export const openSecret = (sealer: Sealer, projectId: string, webhookId: string, sealed: string) =>
  sealer.open(sealed, context(projectId, webhookId))

export function signWith(sealer: Sealer, { id, project_id, secret, previous_secret }: SealedSecrets): Sign {
  const sealed = previous_secret === null ? [secret] : [secret, previous_secret]
  return createSign(sealed.map(each => openSecret(sealer, project_id, id, each)))
}
