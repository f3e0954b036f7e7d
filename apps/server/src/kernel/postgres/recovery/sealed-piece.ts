// Small encrypted records among the pieces, each in one piece: manifests and marks.
import { frameCipher } from '#src/kernel/objects/frames.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'

const maxBytes = 64 * 1024 * 1024

export interface SealedPiece {
  pieces: Pieces
  dataKey: Buffer
  /** With its folder. */
  name: string
  /** From which the key is derived, so that records cannot be exchanged. */
  version: string
}

/** A process that is killed meanwhile may leave an incomplete piece. */
export async function writeSealedPiece(to: SealedPiece, plain: Buffer): Promise<void> {
  const writer = await to.pieces.write(to.name, 0)
  try {
    await writer.append(frameCipher(to.dataKey, to.version).seal(0, 'tail', [plain]))
    await writer.finish()
  } catch (error) {
    await writer.abort()
    throw error
  }
}

/** The piece appears completely or not at all. */
export async function publishSealedPiece(to: SealedPiece, plain: Buffer): Promise<void> {
  const draft = `${to.name}~`
  await writeSealedPiece({ ...to, name: draft }, plain)
  await to.pieces.copy(draft, to.name)
  await to.pieces.remove([draft])
}

/** Throws MissingPiece or DamagedFile. */
export async function readSealedPiece({ pieces, dataKey, name, version }: SealedPiece): Promise<Buffer> {
  const reader = await pieces.open(name, 0, maxBytes)
  try {
    const content = Buffer.alloc(Math.min(reader.size, maxBytes))
    await reader.fill(content)
    return frameCipher(dataKey, version).open(0, 'tail', content)
  } finally {
    await reader.close()
  }
}
