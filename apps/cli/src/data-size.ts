import { type Dirent, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { clusterDirectory } from './local-platform.ts'

/** Bytes of a data directory and of its cluster, which may be elsewhere. */
export function sizeOfData(dataDir: string): number {
  const cluster = clusterDirectory(dataDir)
  return sizeOf(dataDir) + (cluster.startsWith(`${dataDir}/`) ? 0 : sizeOf(cluster))
}

/** A file that disappears meanwhile or cannot be read counts as 0 bytes. */
function sizeOf(directory: string): number {
  let entries: Dirent[]
  try {
    entries = readdirSync(directory, { withFileTypes: true })
  } catch {
    return 0
  }
  return entries.reduce((sum, entry) => {
    const path = join(directory, entry.name)
    const size = entry.isDirectory() ? sizeOf(path) : lstatSync(path, { throwIfNoEntry: false })?.size
    return sum + (size ?? 0)
  }, 0)
}
