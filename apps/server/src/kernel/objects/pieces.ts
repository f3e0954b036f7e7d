// Where bytes are kept: a directory or an S3 bucket. A piece is at most some megabytes, named `<folder>/<name>` by the
// platform, never by a caller; what it holds is encrypted before it comes here.

export interface Pieces {
  /**
   * A piece that keeps its first `at` bytes, followed by what is appended. Nothing is promised of it until `finish` has
   * resolved: then it is on disk, and stays there when the machine loses power.
   */
  write(name: string, at: number): Promise<PieceWriter>
  /** Bytes `from` up to, not including, `to`. Throws MissingPiece. */
  open(name: string, from: number, to: number): Promise<PieceReader>
  /** Those that are not there count as removed. */
  remove(names: readonly string[]): Promise<void>
  removeFolder(folder: string): Promise<void>
  /** Everything in a folder, in no order. */
  list(folder: string): AsyncIterable<PieceFound>
  close(): Promise<void>
}

export interface PieceWriter {
  /** The buffers may be used for other things once it has resolved. */
  append(chunks: readonly Buffer[]): Promise<void>
  finish(): Promise<void>
  /** Gives up: what was appended may be there or not. Of no consequence after `finish`. */
  abort(): Promise<void>
}

export interface PieceReader {
  /** Bytes of the whole piece. */
  readonly size: number
  /** Fills the buffer from where the last one ended; answers fewer bytes than it holds only at the end. */
  fill(buffer: Buffer): Promise<number>
  close(): Promise<void>
}

export interface PieceFound {
  name: string
  modifiedAt: Date
}

export class MissingPiece extends Error {
  constructor(name: string, cause?: unknown) {
    super(`${name} is not there`, { cause })
    this.name = 'MissingPiece'
  }
}
