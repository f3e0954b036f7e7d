// Part of a file, or all of it, from its pieces. Only the frames that hold what is asked for are read and opened.
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

interface Wanted {
  pieces: Pieces
  cipher: FrameCipher
  address: FileAddress
  /** Of the whole file. */
  size: number
  from: number
  /** Not included. */
  to: number
}

const runBytesMax = framesInRun * storedFrameBytes
/** Runs are read into these, which nobody holds for longer than that takes. */
const spare: Buffer[] = []
const sparesMax = 4

/** The first run is read before this answers, so that a file that is missing or damaged is known in time. */
export async function openFile(wanted: Wanted): Promise<Buffer | ByteSource> {
  const source = createSource(wanted)
  let first: readonly Buffer[] | undefined
  try {
    first = await source.next()
  } finally {
    // What is read to its end is not kept open for a slow client.
    if (!first || !source.hasMore) await source.close()
  }
  return first.length === 1 && !source.hasMore ? first[0]! : after(first, source)
}

function after(first: readonly Buffer[], rest: ByteSource): ByteSource {
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

function createSource({ pieces, cipher, address, size, from, to }: Wanted): ByteSource {
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

  async function openRun(piece: PieceReader, count: number): Promise<Buffer[]> {
    const bytes = runBytes(count)
    const buffer = bytes < frameBytes ? Buffer.allocUnsafe(bytes) : (spare.pop() ?? largest())
    try {
      const run = buffer.subarray(0, bytes)
      if ((await piece.fill(run)) < bytes) throw new DamagedFile(`frame ${frame} is cut short`)
      return Array.from({ length: count }, (_, each) => {
        const at = each * storedFrameBytes
        return opened(frame + each, run.subarray(at, at + storedBytes(frame + each)))
      })
    } finally {
      if (buffer.length === runBytesMax && spare.length < sparesMax) spare.push(buffer)
    }
  }

  function opened(index: number, stored: Buffer): Buffer {
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
      const plain = await openRun(piece, count)
      frame += count
      if (count === inPiece) {
        reader = undefined
        await piece.close()
      }
      return plain
    },
    async close() {
      // Also one that is just being opened; of a read under way its reader takes care.
      const piece = await reader?.catch(() => undefined)
      await piece?.close()
    },
  }
}

const largest = () => Buffer.allocUnsafeSlow(runBytesMax)
