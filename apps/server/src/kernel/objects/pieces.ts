// The interface to the storage for file contents: a directory or an S3 bucket. A piece has at most some megabytes of
// encrypted content. Its name is `<folder>/<name>` and is chosen by the platform, never by a caller.

export interface Pieces {
  /**
   * Writes a piece that keeps its first `at` bytes, followed by the appended ones. The piece is durable once `finish` has
   * resolved. Before that, the appended bytes may be stored completely, in part or not at all.
   */
  write(name: string, at: number): Promise<PieceWriter>
  /** Reads from byte `from` to byte `to`, exclusive. Throws MissingPiece. */
  open(name: string, from: number, to: number): Promise<PieceReader>
  /** Ignores missing pieces. The signal ends it early, and then some of the pieces are left. */
  remove(names: readonly string[], signal?: AbortSignal): Promise<void>
  /** Copies a finished piece. Neither of the two may be appended to afterwards. Throws MissingPiece. */
  copy(from: string, to: string): Promise<void>
  removeFolder(folder: string, signal?: AbortSignal): Promise<void>
  /** Folders that contain pieces. */
  folders(): AsyncIterable<string>
  /** All pieces of a folder, in no particular order. */
  list(folder: string): AsyncIterable<PieceFound>
  close(): Promise<void>
}

export interface PieceWriter {
  /** The caller may reuse the buffers once it has resolved. */
  append(chunks: readonly Buffer[]): Promise<void>
  finish(): Promise<void>
  /** Ends the write without `finish`. The appended bytes may be stored or not. Does nothing after `finish`. */
  abort(): Promise<void>
}

export interface PieceReader {
  /** Bytes of the whole piece. */
  readonly size: number
  /** Reads the next bytes into the buffer and returns their number, which is less than its length only at the end. */
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
    super(`${name} does not exist`, { cause })
    this.name = 'MissingPiece'
  }
}

/** A write failed because the disk or the quota of the operating system user is full. */
export class NoSpace extends Error {
  constructor(cause: unknown) {
    super('there is no space left for files', { cause })
    this.name = 'NoSpace'
  }
}

/** The S3 service cannot be reached, or answers with an error. */
export class ObjectsUnavailable extends Error {
  constructor(cause: unknown) {
    super('the S3 service failed', { cause })
    this.name = 'ObjectsUnavailable'
  }
}

const folderForm = /^[0-9a-f-]{1,64}$/
const nameForm = /^[0-9a-f-]{1,64}\/[0-9a-f-]{2}[0-9a-f.~-]{0,126}$/

/** Called before a name becomes part of a path or URL. A valid name has no `..` and only the one slash. */
export function assertName(name: string): void {
  if (!nameForm.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a piece name`)
}

export function assertFolder(folder: string): void {
  if (!folderForm.test(folder)) throw new TypeError(`${JSON.stringify(folder)} is not a folder name`)
}

export const isFolder = (folder: string): boolean => folderForm.test(folder)
export const isName = (name: string): boolean => nameForm.test(name)
