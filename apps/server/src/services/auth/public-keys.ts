// The JWKS of a project. It is read from the control database, because a key that another node has just made must be in it:
// clients cache the answer.
import type { Directory, Tenant } from '#src/tenancy/directory.ts'
import type { PublicJwk } from '#src/tenancy/tenant-signing-keys.ts'

/** Requests during a read share it, so that a project causes at most one read at a time. */
export function createPublicKeys(directory: Pick<Directory, 'read'>) {
  const reading = new Map<string, Promise<PublicJwk[]>>()
  return ({ id }: Tenant): Promise<PublicJwk[]> => {
    const running = reading.get(id)
    if (running) return running
    const started = directory
      .read(id)
      .then(tenant => tenant?.signingKeys.jwks() ?? [])
      .finally(() => reading.delete(id))
    reading.set(id, started)
    return started
  }
}
