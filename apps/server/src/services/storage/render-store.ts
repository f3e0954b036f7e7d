// Rendered images on the local disk, encrypted like the original files. They can be rendered again, so they need no fsync.
import { randomBytes } from 'node:crypto'
import { readAll } from '#src/kernel/byte-source.ts'
import { openFile } from '#src/kernel/objects/file-reader.ts'
import { openFileWriter } from '#src/kernel/objects/file-writer.ts'
import { frameCipher } from '#src/kernel/objects/frames.ts'
import { pieceNames } from '#src/kernel/objects/layout.ts'
import { MissingPiece, type Pieces } from '#src/kernel/objects/pieces.ts'
import type { RenderStore } from './render/cache.ts'

interface Kept {
  key: Buffer
  size: number
}

/** Keys exist only in this process. After a restart the files are unreadable and are removed. */
export function createRenderStore(pieces: Pieces, clear: () => Promise<void>): RenderStore {
  const kept = new Map<string, Kept>()
  return {
    async put(project, name, bytes) {
      const key = randomBytes(32)
      const writer = openFileWriter({
        pieces,
        cipher: frameCipher(key, name),
        address: { project, version: name },
      })
      // Copy the bytes: the writer detaches its input, which is still being sent to the client.
      await writer.write([Buffer.from(bytes)])
      await writer.end()
      kept.set(name, { key, size: bytes.length })
    },
    async get(project, name) {
      const found = kept.get(name)
      if (!found) return
      const { key, size } = found
      const opened = await openFile({
        pieces,
        cipher: frameCipher(key, name),
        address: { project, version: name },
        size,
        from: 0,
        to: size,
      }).catch(error => {
        if (error instanceof MissingPiece) return undefined
        throw error
      })
      return opened && readAll(opened)
    },
    async remove(project, name) {
      const size = kept.get(name)?.size ?? 0
      kept.delete(name)
      await pieces.remove(pieceNames(project, name, size))
    },
    async clear() {
      kept.clear()
      await clear()
    },
  }
}
