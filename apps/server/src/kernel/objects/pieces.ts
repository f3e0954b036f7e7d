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
  /** Those that hold something. */
  folders(): AsyncIterable<string>
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
  size: number
  modifiedAt: Date
}

export class MissingPiece extends Error {
  constructor(name: string, cause?: unknown) {
    super(`${name} is not there`, { cause })
    this.name = 'MissingPiece'
  }
}

/** What a write meets when the disk or the owner's share of it is full. */
export class NoSpace extends Error {
  constructor(cause: unknown) {
    super('there is no space left for files', { cause })
    this.name = 'NoSpace'
  }
}

/** The S3 service cannot be reached, or answers with a failure. */
export class ObjectsUnavailable extends Error {
  constructor(cause: unknown) {
    super('the S3 service failed', { cause })
    this.name = 'ObjectsUnavailable'
  }
}

const folderForm = /^[0-9a-f-]{1,64}$/
const nameForm = /^[0-9a-f-]{1,64}\/[0-9a-f-]{2}[0-9a-f.~-]{0,126}$/

/** Before it reaches a disk or a URL: nothing in it can lead elsewhere. */
export function assertName(name: string): void {
  if (!nameForm.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name of a piece`)
}

export function assertFolder(folder: string): void {
  if (!folderForm.test(folder)) throw new TypeError(`${JSON.stringify(folder)} is no name of a folder`)
}

export const isFolder = (folder: string): boolean => folderForm.test(folder)
export const isName = (name: string): boolean => nameForm.test(name)
