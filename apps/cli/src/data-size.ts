import { type Dirent, lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { clusterDirectory } from './local-platform.ts'

/** Bytes of everything a data directory stands for, wherever the cluster lives. */
export function sizeOfData(dataDir: string): number {
  const cluster = clusterDirectory(dataDir)
  return sizeOf(dataDir) + (cluster.startsWith(`${dataDir}/`) ? 0 : sizeOf(cluster))
}

/** What vanishes or is closed to us while we look counts as nothing. */
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
