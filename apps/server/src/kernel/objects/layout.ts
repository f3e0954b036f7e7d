// How a file of a given size lies in pieces: frames one after the other, the same number in each piece but the last.
import { frameBytes, overheadBytes } from './frames.ts'

export const framesInPiece = 128
/** What is read and opened, or sealed and written, in one go. */
export const framesInRun = 8
export const storedFrameBytes = frameBytes + overheadBytes

/** An empty file has a frame, too: that it is empty is authenticated. */
export const frameCount = (size: number) => Math.max(1, Math.ceil(size / frameBytes))

export const pieceCount = (size: number) => Math.ceil(frameCount(size) / framesInPiece)

/** Bytes stored of the frames up to, not including, `frame`. */
function storedUpTo(size: number, frame: number): number {
  return frame >= frameCount(size) ? size + frameCount(size) * overheadBytes : frame * storedFrameBytes
}

export const storedPieceBytes = (size: number, piece: number) =>
  storedUpTo(size, (piece + 1) * framesInPiece) - storedUpTo(size, piece * framesInPiece)

export const pieceName = (project: string, version: string, piece: number) => `${project}/${version}.${piece}`

export const pieceNames = (project: string, version: string, size: number): string[] =>
  Array.from({ length: pieceCount(size) }, (_, piece) => pieceName(project, version, piece))

/** Of a file whose pieces take so many bytes in all. */
export const plainBytes = (stored: number) => stored - Math.ceil(stored / storedFrameBytes) * overheadBytes
