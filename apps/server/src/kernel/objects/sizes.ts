import type { Pieces } from './pieces.ts'

/** The stored bytes of all pieces of a folder by their names. */
export async function sizesIn(pieces: Pick<Pieces, 'list'>, folder: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  for await (const { name, size } of pieces.list(folder)) sizes.set(name, size)
  return sizes
}
