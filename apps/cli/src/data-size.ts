import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { clusterDirectory } from './local-platform.ts'

/** Bytes of everything a data directory stands for, wherever the cluster lives. */
export async function sizeOfData(dataDir: string): Promise<number> {
  const cluster = clusterDirectory(dataDir)
  const places = cluster.startsWith(`${dataDir}/`) ? [dataDir] : [dataDir, cluster]
  const sizes = await Promise.all(places.map(sizeOf))
  return sizes.reduce((sum, size) => sum + size, 0)
}

/** What vanishes or is closed to us while we look counts as nothing. */
async function sizeOf(directory: string): Promise<number> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
  let total = 0
  for (const entry of entries) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) total += await sizeOf(path)
    else total += (await lstat(path).catch(() => null))?.size ?? 0
  }
  return total
}
