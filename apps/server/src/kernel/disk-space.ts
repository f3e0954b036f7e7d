import { statfs } from 'node:fs/promises'

/** Bytes that processes without special rights can still write to the file system of a path. */
export async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}
