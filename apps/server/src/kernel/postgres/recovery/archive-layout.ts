// The names of what recovery to a time keeps among the pieces. Names of pieces are hexadecimal. The WAL of a cluster is
// in the folder with the cluster's system identifier, each base backup is in a folder of its own.
import type { Pieces } from '#src/kernel/objects/pieces.ts'
import { parseSegmentName } from './wal-position.ts'

/** The place of an archive and the key of its files. */
export interface ArchiveStore {
  pieces: Pieces
  dataKey: Buffer
  /** From `IDENTIFY_SYSTEM`, in 16 hexadecimal digits. It tells clusters apart that use the same storage. */
  systemId: string
  /** A local directory for segments that are not packed yet. */
  spoolDir: string
}

/** A segment in the archive, or the one that is being received. */
export interface Segment {
  timeline: number
  /** Its number in the WAL. */
  number: number
  /** Bytes of WAL. Less than a segment if the WAL after it is missing. */
  bytes: number
  /** The earliest and latest end of a transaction in it, in microseconds since 1970. */
  times: SegmentTimes | undefined
}

export interface SegmentTimes {
  first: number
  last: number
}

export const formatSystemId = (decimal: string): string => BigInt(decimal).toString(16).padStart(16, '0')

export const walFolder = (systemId: string): string => systemId

/** The version of the file of a segment. It contains the size, so that a longer version does not overwrite a shorter one. */
export const segmentVersion = (systemId: string, name: string, bytes: number): string =>
  `${systemId}-${name.toLowerCase()}-${bytes.toString(16)}`

/**
 * The name of a piece that is written after the file of the segment. Without it, the segment does not exist. The name has
 * what the catalogue needs, so that listing the pieces is enough. The content is the hash of the segment, encrypted.
 */
export const segmentMark = (version: string, storedBytes: number, times: SegmentTimes | undefined): string =>
  [version, storedBytes.toString(16), times?.first.toString(16) ?? '-', times?.last.toString(16) ?? '-'].join(
    '~',
  )

const markForm = /^[0-9a-f]{16}-([0-9a-f]{24})-([0-9a-f]+)~([0-9a-f]+)~([0-9a-f]+|-)~([0-9a-f]+|-)$/

export interface ArchivedSegment extends Segment {
  version: string
  /** Compressed and encrypted. */
  storedBytes: number
  /** The name of its mark, without the folder. */
  mark: string
}

/** Parses the name of a piece without its folder. Undefined if it is not the mark of a segment. */
export function parseSegmentMark(name: string): ArchivedSegment | undefined {
  const found = markForm.exec(name)
  if (!found) return
  const [, segment = '', bytes = '', storedBytes = '', first = '', last = ''] = found
  const { timeline, segment: number } = parseSegmentName(segment)
  return {
    timeline,
    number,
    bytes: Number.parseInt(bytes, 16),
    version: name.slice(0, name.indexOf('~')),
    storedBytes: Number.parseInt(storedBytes, 16),
    mark: name,
    times: first === '-' ? undefined : { first: Number.parseInt(first, 16), last: Number.parseInt(last, 16) },
  }
}

/** A part of the spool of a segment that is not packed yet. */
export interface TailPiece {
  segment: string
  /** Positions in the file. */
  from: number
  to: number
}

export const tailPiece = (systemId: string, { segment, from, to }: TailPiece): string =>
  `${walFolder(systemId)}/${systemId}-${segment.toLowerCase()}-${from.toString(16)}~${to.toString(16)}`

/** Parses the name of a piece without its folder. */
export function parseTailPiece(name: string): TailPiece | undefined {
  const [, segment, from = '', to = ''] =
    /^[0-9a-f]{16}-([0-9a-f]{24})-([0-9a-f]+)~([0-9a-f]+)$/.exec(name) ?? []
  if (segment === undefined) return
  return { segment: segment.toUpperCase(), from: Number.parseInt(from, 16), to: Number.parseInt(to, 16) }
}

/** The segment to which a piece belongs: its mark, or a part of its file or of its spool. */
export function segmentOfPiece(name: string): { timeline: number; number: number } | undefined {
  const found = /^[0-9a-f]{16}-([0-9a-f]{24})-[0-9a-f]+[.~]/.exec(name)
  if (!found) return
  const { timeline, segment: number } = parseSegmentName(found[1]!)
  return { timeline, number }
}

export const baseFolder = (systemId: string, id: string): string => `${systemId}-${id}`

/** The id of the base backup in a folder. Undefined if the folder has something else. */
export function baseIdIn(systemId: string, folder: string): string | undefined {
  const id = folder.startsWith(`${systemId}-`) ? folder.slice(systemId.length + 1) : ''
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id) ? id : undefined
}

/** The files of a base backup. A part is named after the oid of its database; 0 has everything else. */
export const partVersion = (id: string, oid: number): string => `${id}-${oid.toString(16).padStart(8, '0')}`
export const commonPart = 0
/** Names and sizes of the files in all databases. */
export const fileListVersion = (id: string): string => `${id}-ffffffff-1`
/** Written last, as one piece. Without it, the base backup does not exist. */
export const manifestVersion = (id: string): string => `${id}-ffffffff`
