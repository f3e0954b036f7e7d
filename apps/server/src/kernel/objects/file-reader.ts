// Reads a range of a file from its pieces. Only the frames that contain the range are read and decrypted.
import type { ByteSource } from '#src/kernel/byte-source.ts'
import type { FileAddress } from './file-writer.ts'
import { DamagedFile, type FrameCipher, frameBytes, overheadBytes } from './frames.ts'
import {
  frameCount,
  framesInPiece,
  framesInRun,
  pieceName,
  storedFrameBytes,
  storedPieceBytes,
} from './layout.ts'
import type { PieceReader, Pieces } from './pieces.ts'

interface FileRange {
  pieces: Pieces
  cipher: FrameCipher
  address: FileAddress
  /** Size of the whole file. */
  size: number
  from: number
  /** Exclusive. */
  to: number
}

const maxRunBytes = framesInRun * storedFrameBytes
/** Free buffers into which runs are read. */
const spareBuffers: Buffer[] = []
const maxSpareBuffers = 4

/** Reads the first run before it resolves, so that a missing or damaged file is an error before the answer starts. */
export async function openFile(range: FileRange): Promise<Buffer | ByteSource> {
  const source = createSource(range)
  let first: readonly Buffer[] | undefined
  try {
    first = await source.next()
  } finally {
    // A file that was read to its end does not stay open while a slow client receives it.
    if (!first || !source.hasMore) await source.close()
  }
  return first.length === 1 && !source.hasMore ? first[0]! : prepend(first, source)
}

function prepend(first: readonly Buffer[], rest: ByteSource): ByteSource {
  let ready: readonly Buffer[] | undefined = first
  return {
    get hasMore() {
      return ready !== undefined || rest.hasMore
    },
    async next() {
      const run = ready ?? (await rest.next())
      ready = undefined
      return run
    },
    close: () => rest.close(),
  }
}

function createSource({ pieces, cipher, address, size, from, to }: FileRange): ByteSource {
  const lastFrame = frameCount(size) - 1
  const endFrame = Math.max(1, Math.ceil(to / frameBytes))
  let frame = Math.floor(from / frameBytes)
  let reader: Promise<PieceReader> | undefined

  const storedBytes = (index: number) =>
    index === lastFrame ? size - lastFrame * frameBytes + overheadBytes : storedFrameBytes

  const runBytes = (count: number) => (count - 1) * storedFrameBytes + storedBytes(frame + count - 1)

  async function openPiece(): Promise<PieceReader> {
    const piece = Math.floor(frame / framesInPiece)
    const base = piece * framesInPiece
    const expected = storedPieceBytes(size, piece)
    const opened = await pieces.open(
      pieceName(address.project, address.version, piece),
      (frame - base) * storedFrameBytes,
      Math.min(expected, (endFrame - base) * storedFrameBytes),
    )
    if (opened.size === expected) return opened
    await opened.close()
    throw new DamagedFile(`piece ${piece} has ${opened.size} bytes, not ${expected}`)
  }

  async function readRun(piece: PieceReader, count: number): Promise<Buffer[]> {
    const bytes = runBytes(count)
    const buffer = bytes < frameBytes ? Buffer.allocUnsafe(bytes) : (spareBuffers.pop() ?? newRunBuffer())
    try {
      const run = buffer.subarray(0, bytes)
      if ((await piece.fill(run)) < bytes) throw new DamagedFile(`frame ${frame} is cut short`)
      return Array.from({ length: count }, (_, each) => {
        const at = each * storedFrameBytes
        return decryptFrame(frame + each, run.subarray(at, at + storedBytes(frame + each)))
      })
    } finally {
      if (buffer.length === maxRunBytes && spareBuffers.length < maxSpareBuffers) spareBuffers.push(buffer)
    }
  }

  /** The part of the frame that is in the range. */
  function decryptFrame(index: number, stored: Buffer): Buffer {
    const plain = cipher.open(index, index === lastFrame ? 'last' : 'inner', stored)
    const start = index * frameBytes
    return start >= from && start + plain.length <= to
      ? plain
      : plain.subarray(Math.max(0, from - start), to - start)
  }

  return {
    get hasMore() {
      return frame < endFrame
    },
    async next() {
      reader ??= openPiece()
      const piece = await reader
      const inPiece = framesInPiece - (frame % framesInPiece)
      const count = Math.min(framesInRun, endFrame - frame, inPiece)
      const plain = await readRun(piece, count)
      frame += count
      if (count === inPiece) {
        reader = undefined
        await piece.close()
      }
      return plain
    },
    async close() {
      // Waits for a piece that is being opened. The reader waits for its own current read.
      const piece = await reader?.catch(() => undefined)
      await piece?.close()
    },
  }
}

const newRunBuffer = () => Buffer.allocUnsafeSlow(maxRunBytes)
