// Part of a file, or all of it, from its pieces. Only the frames that hold what is asked for are read and opened.
import { Readable } from 'node:stream'
import type { FileAddress } from './file-writer.ts'
import { DamagedFile, type FrameCipher, frameBytes, overheadBytes } from './frames.ts'
import { frameCount, framesInPiece, pieceName, storedFrameBytes, storedPieceBytes } from './layout.ts'
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

/** Frames read and opened in one go. */
const framesInRun = 4

/** The first run is read before this answers, so that a file that is missing or damaged is known in time. */
export async function openFile(wanted: Wanted): Promise<Buffer | Readable> {
  const source = createSource(wanted)
  let isStreamed = false
  try {
    const first = await source.next()
    isStreamed = source.hasMore
    if (isStreamed) return new FileStream(source, first)
    return first.length === 1 ? first[0]! : Buffer.concat(first)
  } finally {
    if (!isStreamed) await source.close()
  }
}

interface Source {
  readonly hasMore: boolean
  next(): Promise<Buffer[]>
  close(): Promise<void>
}

function createSource({ pieces, cipher, address, size, from, to }: Wanted): Source {
  const lastFrame = frameCount(size) - 1
  const endFrame = Math.max(1, Math.ceil(to / frameBytes))
  let frame = Math.floor(from / frameBytes)
  let reader: Promise<PieceReader> | undefined

  const storedBytes = (index: number) =>
    index === lastFrame ? size - lastFrame * frameBytes + overheadBytes : storedFrameBytes

  const runBytes = (count: number) => (count - 1) * storedFrameBytes + storedBytes(frame + count - 1)
  /** Every run is read into it; the first is never shorter than those that follow. */
  const buffer = Buffer.allocUnsafe(runBytes(Math.min(framesInRun, endFrame - frame)))

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
      const bytes = runBytes(count)
      const run = buffer.subarray(0, bytes)
      if ((await piece.fill(run)) < bytes) throw new DamagedFile(`frame ${frame} is cut short`)
      const plain: Buffer[] = []
      for (let each = 0; each < count; each++) {
        const at = each * storedFrameBytes
        plain.push(opened(frame + each, run.subarray(at, at + storedBytes(frame + each))))
      }
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

class FileStream extends Readable {
  readonly #source: Source
  #ready: Buffer[]
  constructor(source: Source, first: Buffer[]) {
    super({ highWaterMark: 4 * frameBytes })
    this.#source = source
    this.#ready = first
  }
  override _read(): void {
    if (this.#ready.length > 0) this.#hand()
    else if (!this.#source.hasMore) this.push(null)
    else
      this.#source.next().then(
        run => {
          this.#ready = run
          this.#hand()
        },
        error => void this.destroy(error),
      )
  }
  #hand(): void {
    const run = this.#ready
    this.#ready = []
    for (const chunk of run) this.push(chunk)
  }
  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#source.close().then(
      () => done(error),
      closing => done(error ?? closing),
    )
  }
}
