// Creates, replaces and retires the ES256 keys that sign the access tokens of a project. A key is made when a project first
// needs one, and a replaced key verifies until its last token has expired.
import { newEs256Key } from '#src/kernel/crypto/es256.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import type { Directory, Tenant } from './directory.ts'
import {
  activateKey,
  deleteExpiredKeys,
  dropPrivateKeys,
  insertKey,
  listKeys,
  lockProjectSettings,
  retireActiveKey,
  type SigningKeyRow,
  touchProject,
} from './signing-keys-store.ts'
import { type ActiveKey, keyContext, signingKeysFrom } from './tenant-signing-keys.ts'

export interface RotatedKeys {
  kid: string
  created_at: string
  /** Keys that still verify. */
  former: { kid: string; valid_until: string }[]
}

export interface SigningKeys {
  /** The key that signs tokens of this lifetime. Makes one if the project has none. */
  ensure(tenant: Tenant, tokenSeconds: number): Promise<ActiveKey>
  /** The project signs with HS256 again. */
  retire(tenant: Tenant): Promise<void>
  /** Replaces the key. `tokenSeconds` reads the lifetime of tokens from the settings, or throws if ES256 is off. */
  rotate(
    projectId: string,
    tokenSeconds: (settings: Readonly<Record<string, unknown>>) => number,
  ): Promise<RotatedKeys>
}

/** Every node keeps the keys in memory, and every client downloads them. */
const maxFormerKeys = 10

export function createSigningKeys(control: Database, directory: Directory, sealer: Sealer): SigningKeys {
  /** Holds the lock of the project row, so that of concurrent changes one sees the other. */
  async function change<T>(
    projectId: string,
    work: (session: Session, settings: Readonly<Record<string, unknown>>) => Promise<T>,
  ): Promise<T> {
    const result = await control.transaction(async session => {
      const project = await lockProjectSettings(session, projectId)
      if (!project) throw new Refusal('project_not_found', 'No project has this id')
      await deleteExpiredKeys(session, projectId)
      return work(session, project.settings)
    })
    directory.forget(projectId)
    return result
  }

  async function insertNew(session: Session, projectId: string, tokenSeconds: number): Promise<void> {
    const kid = crypto.randomUUID()
    const { point, secret } = newEs256Key()
    const sealed = sealer.seal(secret, keyContext(projectId, kid))
    await insertKey(session, projectId, { kid, ...point, private_key: sealed, token_seconds: tokenSeconds })
  }

  return {
    async ensure({ id }, tokenSeconds) {
      const rows = await change(id, async session => {
        const keys = await listKeys(session, id)
        // A key that was retired by a change to HS256 signs again. Keys that were rotated have no private key.
        const usable = keys.find(({ private_key }) => private_key !== null)
        // Another request may have made the key meanwhile.
        if (usable?.valid_until === null && usable.token_seconds >= tokenSeconds) return keys
        if (usable) await activateKey(session, usable.kid, tokenSeconds)
        else await insertNew(session, id, tokenSeconds)
        await touchProject(session, id)
        return listKeys(session, id)
      })
      return signingKeysFrom(id, rows, sealer).active()!
    },

    async retire({ id }) {
      await change(id, async session => {
        await retireActiveKey(session, id)
        await touchProject(session, id)
      })
    },

    rotate: (projectId, tokenSeconds) =>
      change(projectId, async (session, settings) => {
        const seconds = tokenSeconds(settings)
        await retireActiveKey(session, projectId)
        await dropPrivateKeys(session, projectId)
        const retired = await listKeys(session, projectId)
        if (retired.length > maxFormerKeys) throw tooManyKeys(retired)
        await insertNew(session, projectId, seconds)
        await touchProject(session, projectId)
        const [active, ...former] = await listKeys(session, projectId)
        return {
          kid: active!.kid,
          created_at: active!.created_at,
          former: former.map(({ kid, valid_until }) => ({ kid, valid_until: valid_until! })),
        }
      }),
  }
}

const tooManyKeys = (keys: readonly SigningKeyRow[]) =>
  new Refusal(
    'too_many_signing_keys',
    `${maxFormerKeys} replaced keys still verify tokens; rotate again after ${keys.at(-1)!.valid_until}, or invalidate all tokens now with POST /projects/{id}/rotate/jwt`,
  )
