// The WAL segments in the archive, by the names of their pieces.
import { proofOf } from '#src/kernel/objects/content-proof.ts'
import { readPacked } from '#src/kernel/objects/packed-file.ts'
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import {
  type ArchivedSegment,
  type ArchiveStore,
  parseSegmentMark,
  segmentOfPiece,
  walFolder,
} from './archive-layout.ts'
import { readSealedPiece } from './sealed-piece.ts'
import { segmentAt, segmentBytes } from './wal-position.ts'

/** The end of stored WAL. */
export interface WalEnd {
  timeline: number
  position: number
}

/** The clusters whose archives are among the pieces. */
export async function systemIds(pieces: Pieces): Promise<string[]> {
  const found: string[] = []
  for await (const folder of pieces.folders()) if (/^[0-9a-f]{16}$/.test(folder)) found.push(folder)
  return found.sort()
}

/** In no particular order. */
export async function* archivedSegments({ pieces, systemId }: ArchiveStore): AsyncGenerator<ArchivedSegment> {
  for await (const { name } of pieces.list(walFolder(systemId))) {
    const segment = parseSegmentMark(name.slice(name.indexOf('/') + 1))
    if (segment) yield segment
  }
}

/** The bytes of a segment. Throws DamagedFile or MissingPiece. */
export async function* readSegment(store: ArchiveStore, segment: ArchivedSegment): AsyncGenerator<Buffer> {
  const { pieces, dataKey, systemId } = store
  const { version, bytes, storedBytes } = segment
  const folder = walFolder(systemId)
  const proof = await readSealedPiece({ pieces, dataKey, name: `${folder}/${segment.mark}`, version })
  yield* readPacked(pieces, dataKey, folder, version, { bytes, storedBytes, ...proofOf(proof) })
}

/** Of one timeline. */
export async function archivedEnd(store: ArchiveStore, timeline: number): Promise<WalEnd | undefined> {
  let position = -1
  for await (const segment of archivedSegments(store))
    if (segment.timeline === timeline)
      position = Math.max(position, segment.number * segmentBytes + segment.bytes)
  return position < 0 ? undefined : { timeline, position }
}

/** Removes the segments at and after a position, which a server that lost its latest WAL writes again with other content. */
export const removeSegmentsFrom = (store: ArchiveStore, { timeline, position }: WalEnd): Promise<void> =>
  removeSegments(store, segment => segment.timeline === timeline && segment.number >= segmentAt(position))

/** Removes files and marks, also those of segments that were not completely written. */
export async function removeSegments(
  { pieces, systemId }: ArchiveStore,
  isUnwanted: (segment: { timeline: number; number: number }) => boolean,
): Promise<void> {
  const names: string[] = []
  for await (const { name } of pieces.list(walFolder(systemId))) {
    const segment = segmentOfPiece(name.slice(name.indexOf('/') + 1))
    if (segment && isUnwanted(segment)) names.push(name)
  }
  // Marks first: a segment whose file is incomplete must not exist.
  names.sort((one, other) => Number(other.includes('~')) - Number(one.includes('~')))
  for (let at = 0; at < names.length; at += removeAtOnce)
    await pieces.remove(names.slice(at, at + removeAtOnce))
}

const removeAtOnce = 500
