// Writes a file into pieces. Written bytes are durable only after `flush` or `end`. Up to a frame of bytes stays in
// memory, because the last frame is encrypted differently and only `end` tells which one that is.
import { discard } from '#src/kernel/byte-source.ts'
import { type FrameCipher, frameBytes } from './frames.ts'
import { framesInPiece, framesInRun, pieceName, storedFrameBytes } from './layout.ts'
import type { Pieces, PieceWriter } from './pieces.ts'

export interface FileAddress {
  project: string
  version: string
}

/** The state of an unfinished file: the number of stored frames, and the bytes after them. */
export interface Progress {
  frames: number
  tail: Buffer
}

export interface FileWriter {
  /** Bytes written so far, including those of `from`. */
  readonly size: number
  /** Takes ownership of the chunks, and frees their memory once they are encrypted. */
  write(chunks: readonly Buffer[]): Promise<void>
  /**
   * Stores every whole frame. Another writer can continue from the returned progress. Throws if an earlier write could
   * not be stored.
   */
  flush(): Promise<Progress>
  /** Stores the rest. When it resolves, the file is complete and durable. */
  end(): Promise<void>
  abort(): Promise<void>
}

/** Encrypted frames are appended to the piece in batches of this many bytes. */
const runBytes = framesInRun * storedFrameBytes
const maxPendingBuffers = 64

interface FileWriterOptions {
  pieces: Pieces
  cipher: FrameCipher
  address: FileAddress
  from?: Progress
  /** Called after each full piece is stored. */
  onPiece?: (progress: Progress) => Promise<void>
}

export function openFileWriter({ pieces, cipher, address, from, onPiece }: FileWriterOptions): FileWriter {
  let frames = from?.frames ?? 0
  /** Bytes that are not encrypted yet. */
  let pending: Buffer[] = from && from.tail.length > 0 ? [from.tail] : []
  /** Bytes of the first pending buffer that are encrypted already. */
  let sealedBytes = 0
  let pendingBytes = from?.tail.length ?? 0
  let size = frames * frameBytes + pendingBytes
  let run: Buffer[] = []
  let inRun = 0
  let piece: PieceWriter | undefined
  let isClosed = false
  /** A write failed, so it is unknown what is stored. */
  let hasFailed = false

  const nextPiece = () =>
    pieces.write(
      pieceName(address.project, address.version, Math.floor(frames / framesInPiece)),
      (frames % framesInPiece) * storedFrameBytes,
    )

  async function sendRun(): Promise<void> {
    if (run.length === 0) return
    const sent = run
    run = []
    inRun = 0
    await noteFailure(piece!.append(sent))
    sent.forEach(discard)
  }

  async function closePiece(): Promise<void> {
    await sendRun()
    if (piece) await noteFailure(piece.finish())
    piece = undefined
  }

  function noteFailure(storing: Promise<void>): Promise<void> {
    return storing.catch(error => {
      hasFailed = true
      throw error
    })
  }

  async function seal(isLast: boolean): Promise<void> {
    // Before `frames` is incremented, because the piece and the offset depend on it.
    piece ??= await nextPiece()
    const { parts, used } = take(Math.min(frameBytes, pendingBytes))
    const sealed = cipher.seal(frames, isLast ? 'last' : 'inner', parts)
    pending.splice(0, used).forEach(discard)
    frames++
    for (const part of sealed) {
      run.push(part)
      inRun += part.length
    }
    if (inRun >= runBytes) await sendRun()
  }

  /** Encrypts every full frame that is followed by further bytes. */
  async function sealFullFrames(): Promise<void> {
    while (pendingBytes > frameBytes) {
      await seal(false)
      if (frames % framesInPiece > 0) continue
      await closePiece()
      await onPiece?.(progress())
    }
  }

  /** Takes the next bytes. `used` counts the pending buffers that are used up. */
  function take(bytes: number): { parts: Buffer[]; used: number } {
    pendingBytes -= bytes
    const parts: Buffer[] = []
    let missing = bytes
    let used = 0
    while (missing > 0) {
      const part = pending[used]!.subarray(sealedBytes, sealedBytes + missing)
      parts.push(part)
      missing -= part.length
      sealedBytes += part.length
      if (sealedBytes < pending[used]!.length) break
      used++
      sealedBytes = 0
    }
    return { parts, used }
  }

  const progress = (): Progress => ({ frames, tail: Buffer.concat(pending).subarray(sealedBytes) })

  return {
    get size() {
      return size
    },
    async write(chunks) {
      for (const chunk of chunks) {
        if (chunk.length === 0) continue
        pending.push(chunk)
        // Many tiny buffers would take far more memory than their bytes.
        if (pending.length > maxPendingBuffers) pending = [Buffer.concat(pending)]
        pendingBytes += chunk.length
        size += chunk.length
      }
      await sealFullFrames()
    },
    async flush() {
      if (hasFailed) throw new Error('the file could not be stored')
      await closePiece()
      return progress()
    },
    async end() {
      // The tail of `from` may be longer than a frame.
      await sealFullFrames()
      await seal(true)
      await closePiece()
      isClosed = true
    },
    async abort() {
      if (isClosed) return
      isClosed = true
      await piece?.abort()
    },
  }
}
