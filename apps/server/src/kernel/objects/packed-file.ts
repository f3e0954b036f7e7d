// Stores a stream of bytes as a compressed and encrypted file. The frames authenticate the compressed bytes. The length
// and the proof of the plain bytes show that the whole stream is the one that was written.
import { pipeline } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { type ByteSource, chunksOf, sourceOf } from '#src/kernel/byte-source.ts'
import { type ContentCheck, type ContentProof, checkContent, macOfContent } from './content-proof.ts'
import { openFile } from './file-reader.ts'
import { openFileWriter } from './file-writer.ts'
import { DamagedFile, frameCipher, overheadBytes } from './frames.ts'
import { frameCount, pieceNames, plainBytes } from './layout.ts'
import type { Pieces } from './pieces.ts'

export interface PackedFile extends ContentProof {
  /** Bytes before compression. */
  bytes: number
  /** Bytes of all pieces. */
  storedBytes: number
}

/** A file without bytes, of which nothing needs to be stored. */
export const emptyPackedFile = (dataKey: Buffer, version: string): PackedFile => ({
  bytes: 0,
  storedBytes: 0,
  mac: macOfContent(dataKey, version).end(),
})

export interface PackedWriter {
  /**
   * Call it again after the promise has resolved. The chunk must not change until `onTaken` was called or `end` has
   * resolved.
   */
  write(chunk: Buffer, onTaken?: () => void): Promise<void> | void
  /** When it resolves, the file is complete and durable. */
  end(): Promise<PackedFile>
  /** Removes what was written, even after `end`. Call it after an error, too. */
  abort(): Promise<void>
}

/** Higher levels take more time than they save on database rows. */
const compressionLevel = 1
/** Bounds the memory for reading. The level above needs a window of 2^19 bytes. */
const maxWindowLog = 23
const outputBytes = 128 * 1024
/** The MAC of more at once would hold the event loop. */
const maxPartBytes = 256 * 1024
/** Bytes that may wait to be compressed. */
const maxQueuedBytes = 512 * 1024

export function writePacked(pieces: Pieces, dataKey: Buffer, project: string, version: string): PackedWriter {
  const file = openFileWriter({
    pieces,
    cipher: frameCipher(dataKey, version),
    address: { project, version },
  })
  const compress = createZstdCompress({
    chunkSize: outputBytes,
    params: { [constants.ZSTD_c_compressionLevel]: compressionLevel },
  })
  const mac = macOfContent(dataKey, version)
  let bytes = 0
  let queuedBytes = 0
  let room: PromiseWithResolvers<void> | undefined
  let failure: { error: unknown } | undefined

  async function store(): Promise<void> {
    try {
      for await (const packed of compress) await file.write([packed])
      await file.end()
    } catch (error) {
      failure = { error }
      room?.reject(error)
      await file.abort().catch(() => {})
    }
  }
  const stored = store()

  function writePart(part: Buffer, onTaken?: () => void): Promise<void> | undefined {
    if (failure) return Promise.reject(failure.error)
    mac.update(part)
    bytes += part.length
    queuedBytes += part.length
    compress.write(part, () => {
      onTaken?.()
      queuedBytes -= part.length
      if (queuedBytes > maxQueuedBytes / 2) return
      room?.resolve()
      room = undefined
    })
    if (queuedBytes < maxQueuedBytes) return
    room ??= Promise.withResolvers()
    return room.promise
  }

  async function writeParts(chunk: Buffer, onTaken?: () => void): Promise<void> {
    for (let at = 0; at < chunk.length; at += maxPartBytes) {
      const end = at + maxPartBytes
      await writePart(chunk.subarray(at, end), end < chunk.length ? undefined : onTaken)
    }
  }

  return {
    write: (chunk, onTaken) =>
      chunk.length > maxPartBytes ? writeParts(chunk, onTaken) : writePart(chunk, onTaken),
    async end() {
      compress.end()
      await stored
      if (failure) throw failure.error
      const storedBytes = file.size + frameCount(file.size) * overheadBytes
      return { bytes, storedBytes, mac: mac.end() }
    },
    async abort() {
      compress.destroy()
      await stored
      await pieces.remove(pieceNames(project, version, file.size))
    },
  }
}

/** Throws DamagedFile if a byte, the length or the proof differs from what was written, and MissingPiece. */
export async function* readPacked(
  pieces: Pieces,
  dataKey: Buffer,
  project: string,
  version: string,
  expected: PackedFile,
): AsyncGenerator<Buffer> {
  if (expected.bytes === 0 && expected.storedBytes === 0) return
  const size = plainBytes(expected.storedBytes)
  const opened = await openFile({
    pieces,
    cipher: frameCipher(dataKey, version),
    address: { project, version },
    size,
    from: 0,
    to: size,
  })
  const decompress = createZstdDecompress({
    chunkSize: outputBytes,
    params: { [constants.ZSTD_d_windowLogMax]: maxWindowLog },
  })
  // Its errors are also thrown by the reading of `decompress`.
  const fed = pipeline(packedChunks(opened), decompress).catch(() => {})
  try {
    yield* verified(decompress, expected, checkContent(dataKey, version, expected))
  } finally {
    decompress.destroy()
    // Until then the source may be open.
    await fed
  }
}

async function* packedChunks(opened: Buffer | ByteSource): AsyncGenerator<Buffer> {
  const source = Buffer.isBuffer(opened) ? sourceOf([opened]) : opened
  for await (const run of chunksOf(source)) yield* run
}

/** Never yields more bytes than expected. */
async function* verified(
  plain: AsyncIterable<Buffer>,
  expected: PackedFile,
  check: ContentCheck,
): AsyncGenerator<Buffer> {
  let bytes = 0
  try {
    for await (const chunk of plain) {
      bytes += chunk.length
      if (bytes > expected.bytes) throw new DamagedFile(`it has more than ${expected.bytes} bytes`)
      check.update(chunk)
      yield chunk
    }
  } catch (error) {
    throw isInvalidCompression(error) ? new DamagedFile('it cannot be decompressed', error) : error
  }
  if (bytes < expected.bytes) throw new DamagedFile(`it has ${bytes} bytes, not ${expected.bytes}`)
  if (!check.end()) throw new DamagedFile('its content differs')
}

const isInvalidCompression = (error: unknown): boolean =>
  /^Z(STD)?_/.test((error as NodeJS.ErrnoException).code ?? '')
