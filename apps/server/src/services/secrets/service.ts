// Secrets of a project. They are sealed in the control database, and only edge functions of the project read them.
import { randomBytes } from 'node:crypto'
import { type RotatedSecret, reservedPrefixes, type Secret } from '@plinth/contract/secrets.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Database } from '#src/kernel/postgres/database.ts'
import type { OwnerWork } from '#src/planes/management/owner-work.ts'
import type { Paging } from '#src/planes/management/paging.ts'
import type { Directory } from '#src/tenancy/directory.ts'
import type { ProjectDataHooks } from '#src/tenancy/project-data.ts'
import * as store from './store.ts'

const maxSecrets = 200
const maxValueBytes = 64 * 1024
/** About 1 MB of values. */
const maxSealedBytes = 1.4 * 1024 * 1024
const rotatedBytes = 32

const contextOf = (projectId: string, name: string) => `project:${projectId}:secret:${name}`
const isUuid = (text: string) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

export interface SecretsDeps {
  control: Database
  sealer: Sealer
  owner: Pick<OwnerWork, 'tenant'>
  directory: Pick<Directory, 'forget'>
}

export type SecretsService = ReturnType<typeof secretsService>

export function secretsService({ control, sealer, owner, directory }: SecretsDeps) {
  const idOf = async (projectId: string) => (await owner.tenant(projectId)).id

  function sealed(projectId: string, name: string, value: string): store.SealedSecret {
    if (Buffer.byteLength(value) > maxValueBytes)
      throw new Refusal('invalid_request', `The value has more than ${maxValueBytes} bytes`)
    return { name, value: sealer.seal(value, contextOf(projectId, name)) }
  }

  /** Workers read all values, and the output of functions is searched for them. */
  async function checked(id: string, secret: store.SealedSecret): Promise<store.SealedSecret> {
    const bytes = secret.value.length + (await store.bytesOfOthers(control, id, secret.name))
    if (bytes > maxSealedBytes)
      throw new Refusal(
        'too_many_secrets',
        'The secrets of the project have more than 1 MB; delete some of them',
      )
    return secret
  }

  async function replace(projectId: string, name: string, value: string): Promise<Secret> {
    const id = await idOf(projectId)
    const found = await store.updateSecret(control, id, await checked(id, sealed(id, name, value)))
    if (!found) throw notFound(name)
    // Functions of this node see it at the next call, those of other nodes within a quarter of a second.
    directory.forget(id)
    return found
  }

  return {
    async list(projectId: string, page: Paging) {
      return { ...(await store.listSecrets(control, await idOf(projectId), page)), ...page }
    },

    async save(projectId: string, name: string, value: string): Promise<Secret> {
      checkName(name)
      const id = await idOf(projectId)
      const saved = await store.saveSecret(
        control,
        id,
        await checked(id, sealed(id, name, value)),
        maxSecrets,
      )
      if (!saved)
        throw new Refusal('too_many_secrets', `The project has ${maxSecrets} secrets; delete some of them`)
      directory.forget(id)
      return saved
    },

    update: replace,

    async rotate(projectId: string, name: string): Promise<RotatedSecret> {
      const value = randomBytes(rotatedBytes).toString('base64url')
      return { ...(await replace(projectId, name, value)), value }
    },

    /** A name can look like an id only by chance: names have no hyphens. */
    async remove(projectId: string, identifier: string): Promise<void> {
      const remove = isUuid(identifier) ? store.removeById : store.removeByName
      const id = await idOf(projectId)
      if ((await remove(control, id, identifier)) === 0) throw notFound(identifier)
      directory.forget(id)
    },

    /** The values, by name. */
    async reveal(projectId: string): Promise<Map<string, string>> {
      const secrets = await store.readSealed(control, projectId)
      return new Map(secrets.map(({ name, value }) => [name, sealer.open(value, contextOf(projectId, name))]))
    },
  }
}

/** Secrets are sealed for their project, so a restore into another project seals them again. */
export const secretsData = (sealer: Sealer): ProjectDataHooks => ({
  async *export(session, projectId) {
    for (const row of await store.readSealed(session, projectId)) yield { ...row }
  },
  async restore(session, projectId, { from, rows }) {
    await store.removeAll(session, projectId)
    for await (const row of rows) {
      const { name, value, created_at, updated_at } = row as unknown as store.SealedSecret & {
        created_at: string
        updated_at: string
      }
      const plain = sealer.open(value, contextOf(from, name))
      const moved = { name, value: sealer.seal(plain, contextOf(projectId, name)) }
      await store.insertSecret(session, projectId, moved, { created_at, updated_at })
    }
  },
})

function checkName(name: string): void {
  const reserved = reservedPrefixes.find(prefix => name.toUpperCase().startsWith(prefix))
  if (reserved)
    throw new Refusal(
      'invalid_request',
      `Names that start with ${reserved} are reserved for the platform; choose another name`,
    )
}

const notFound = (identifier: string) =>
  new Refusal('secret_not_found', `The project has no secret ${JSON.stringify(identifier)}`)
