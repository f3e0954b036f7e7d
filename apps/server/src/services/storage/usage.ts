// Storage usage of a project, kept in the control database where no project owner can change it. An upload reserves bytes
// before it stores any, and they are released after the bytes are removed. So concurrent uploads cannot exceed the quota.
import { createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import type { Database, Session } from '#src/kernel/postgres/database.ts'
import {
  dropFiles,
  findFiles,
  findKey,
  findUsedBytes,
  insertArea,
  reserveBytes,
  resizeFile,
  type StoredFile,
} from './usage-store.ts'

export interface Usage {
  /** The encryption key of a project's files, created on first use. */
  dataKey(project: string): Promise<KeyObject>
  /** False if the quota would be exceeded. */
  reserve(project: string, file: StoredFile, until: Date, limit: number): Promise<boolean>
  /** Changes the reserved size of a file. False if the quota would be exceeded; then nothing changes. */
  resize(project: string, file: StoredFile, limit: number): Promise<boolean>
  find(project: string, versions: readonly string[]): Promise<StoredFile[]>
  /** To be called after the bytes are removed. */
  release(project: string, versions: readonly string[]): Promise<void>
  usedBytes(project: string): Promise<number>
  forget(project: string): void
}

/** Of a project without `max_storage_size_mb`. */
export const defaultQuotaMegabytes = 1024

export const keyContext = (project: string) => `storage_areas.data_key:${project}`
const firstSweepMs = 15 * 60_000
const maxCachedKeys = 1000

/** The sealed key of a project that has none yet. */
export async function createKey(control: Session, sealer: Sealer, project: string): Promise<string> {
  const sealed = sealer.seal(randomBytes(32).toString('base64'), keyContext(project))
  await insertArea(control, project, sealed, new Date(Date.now() + firstSweepMs))
  // Another request may have inserted its key first.
  return (await findKey(control, project)) ?? sealed
}

export function createUsage(control: Database, sealer: Sealer): Usage {
  const keys = new Map<string, Promise<KeyObject>>()

  async function findOrCreateKey(project: string): Promise<KeyObject> {
    const found = await findKey(control, project)
    const sealed = found ?? (await createKey(control, sealer, project))
    return createSecretKey(Buffer.from(sealer.open(sealed, keyContext(project)), 'base64'))
  }

  return {
    dataKey(project) {
      const known = keys.get(project)
      if (known) return known
      const found = findOrCreateKey(project)
      if (keys.size >= maxCachedKeys) keys.delete(keys.keys().next().value!)
      keys.set(project, found)
      found.catch(() => keys.delete(project))
      return found
    },
    async reserve(project, { version, size }, until, limit) {
      const reserved = await reserveBytes(control, project, version, size, until, limit)
      return reserved === 1
    },
    resize: async (project, file, limit) => (await resizeFile(control, project, file, limit)) === 1,
    find: (project, versions) => findFiles(control, project, versions),
    async release(project, versions) {
      if (versions.length > 0) await dropFiles(control, project, versions)
    },
    usedBytes: project => findUsedBytes(control, project),
    forget: project => void keys.delete(project),
  }
}
