// How a file is divided: into frames, and the frames into pieces of equal count. Only the last of each may be shorter.
import { frameBytes, overheadBytes } from './frames.ts'

export const framesInPiece = 128
/** Frames that are read and decrypted, or encrypted and written, together. */
export const framesInRun = 8
export const storedFrameBytes = frameBytes + overheadBytes

/** An empty file has one empty frame, so that its emptiness is authenticated. */
export const frameCount = (size: number) => Math.max(1, Math.ceil(size / frameBytes))

export const pieceCount = (size: number) => Math.ceil(frameCount(size) / framesInPiece)

/** Stored bytes of the frames before `frame`. */
function storedUpTo(size: number, frame: number): number {
  return frame >= frameCount(size) ? size + frameCount(size) * overheadBytes : frame * storedFrameBytes
}

export const storedPieceBytes = (size: number, piece: number) =>
  storedUpTo(size, (piece + 1) * framesInPiece) - storedUpTo(size, piece * framesInPiece)

export const pieceName = (project: string, version: string, piece: number) => `${project}/${version}.${piece}`

export const pieceNames = (project: string, version: string, size: number): string[] =>
  Array.from({ length: pieceCount(size) }, (_, piece) => pieceName(project, version, piece))

/** The size of a file whose pieces have `stored` bytes in total. */
export const plainBytes = (stored: number) => stored - Math.ceil(stored / storedFrameBytes) * overheadBytes
