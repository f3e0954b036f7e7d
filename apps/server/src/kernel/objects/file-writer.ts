// A file on its way into pieces. What has been written is only promised after `flush` or `end`; the last bytes, up to a
// frame, are held back until it is known whether they are the last.
import { discard } from '#src/kernel/byte-source.ts'
import { type FrameCipher, frameBytes } from './frames.ts'
import { framesInPiece, framesInRun, pieceName, storedFrameBytes } from './layout.ts'
import type { Pieces, PieceWriter } from './pieces.ts'

export interface FileAddress {
  project: string
  version: string
}

/** How far a file has come: whole frames that are stored, and the bytes after them. */
export interface Progress {
  frames: number
  tail: Buffer
}

export interface FileWriter {
  /** Bytes taken so far, those of before included. */
  readonly size: number
  /** The chunks are the writer's from now on: their memory is given back when they are sealed. */
  write(chunks: readonly Buffer[]): Promise<void>
  /** Stores every whole frame; what it answers is all one needs to go on elsewhere. Throws after a failure to store. */
  flush(): Promise<Progress>
  /** The file is complete and stored. */
  end(): Promise<void>
  abort(): Promise<void>
}

/** Sealed frames are handed on in runs of this many bytes. */
const runBytes = framesInRun * storedFrameBytes
const maxHeld = 64

interface FileWriterOptions {
  pieces: Pieces
  cipher: FrameCipher
  address: FileAddress
  from?: Progress
  /** Called when a piece is full and stored, with how far the file is then. */
  onPiece?: (progress: Progress) => Promise<void>
}

export function openFileWriter({ pieces, cipher, address, from, onPiece }: FileWriterOptions): FileWriter {
  let frames = from?.frames ?? 0
  let held: Buffer[] = from && from.tail.length > 0 ? [from.tail] : []
  /** Of the first of them, what has been sealed already. */
  let sealedBytes = 0
  let heldBytes = from?.tail.length ?? 0
  let size = frames * frameBytes + heldBytes
  let run: Buffer[] = []
  let inRun = 0
  let piece: PieceWriter | undefined
  let isOver = false
  /** What was handed on is not known to be stored. */
  let isBroken = false

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
    await orBroken(piece!.append(sent))
    sent.forEach(discard)
  }

  async function closePiece(): Promise<void> {
    await sendRun()
    if (piece) await orBroken(piece.finish())
    piece = undefined
  }

  function orBroken(storing: Promise<void>): Promise<void> {
    return storing.catch(error => {
      isBroken = true
      throw error
    })
  }

  async function seal(isLast: boolean): Promise<void> {
    // Before the frame is counted: where it goes depends on how many there are.
    piece ??= await nextPiece()
    const { parts, used } = take(Math.min(frameBytes, heldBytes))
    const sealed = cipher.seal(frames, isLast ? 'last' : 'inner', parts)
    held.splice(0, used).forEach(discard)
    frames++
    for (const part of sealed) {
      run.push(part)
      inRun += part.length
    }
    if (inRun >= runBytes) await sendRun()
  }

  /** Every frame that is not the last for sure. */
  async function sealWhole(): Promise<void> {
    while (heldBytes > frameBytes) {
      await seal(false)
      if (frames % framesInPiece > 0) continue
      await closePiece()
      await onPiece?.(progress())
    }
  }

  /** Also how many of those held are used up by that. */
  function take(bytes: number): { parts: Buffer[]; used: number } {
    heldBytes -= bytes
    const parts: Buffer[] = []
    let missing = bytes
    let used = 0
    while (missing > 0) {
      const part = held[used]!.subarray(sealedBytes, sealedBytes + missing)
      parts.push(part)
      missing -= part.length
      sealedBytes += part.length
      if (sealedBytes < held[used]!.length) break
      used++
      sealedBytes = 0
    }
    return { parts, used }
  }

  const progress = (): Progress => ({ frames, tail: Buffer.concat(held).subarray(sealedBytes) })

  return {
    get size() {
      return size
    },
    async write(chunks) {
      for (const chunk of chunks) {
        if (chunk.length === 0) continue
        held.push(chunk)
        // Bytes that come one by one would each take up the room of many.
        if (held.length > maxHeld) held = [Buffer.concat(held)]
        heldBytes += chunk.length
        size += chunk.length
      }
      await sealWhole()
    },
    async flush() {
      if (isBroken) throw new Error('the file could not be stored')
      await closePiece()
      return progress()
    },
    async end() {
      // More than a frame may have been held where it goes on from.
      await sealWhole()
      await seal(true)
      await closePiece()
      isOver = true
    },
    async abort() {
      if (isOver) return
      isOver = true
      await piece?.abort()
    },
  }
}
