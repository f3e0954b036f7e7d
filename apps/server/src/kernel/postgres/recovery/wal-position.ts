// Positions in the WAL (LSN) and the names of its segments. A position is a number: 2^53 bytes of WAL are 8 PiB.

/** The segment size of every cluster that `engine/cluster.ts` creates. */
export const segmentBytes = 16 * 1024 * 1024

const segmentsPerName = 2 ** 32 / segmentBytes

/** Parses a position as Postgres writes it: `16/B374D848`. */
export function parseLsn(text: string): number {
  const [high = '', low = ''] = text.split('/')
  const position = Number.parseInt(high, 16) * 2 ** 32 + Number.parseInt(low, 16)
  if (!Number.isSafeInteger(position)) throw new Error(`${JSON.stringify(text)} is not a position in the WAL`)
  return position
}

export const formatLsn = (position: number): string =>
  `${Math.floor(position / 2 ** 32).toString(16)}/${(position % 2 ** 32).toString(16)}`.toUpperCase()

/** The number of the segment that contains the position. */
export const segmentAt = (position: number): number => Math.floor(position / segmentBytes)

/** The name of the file in `pg_wal`. */
export const segmentName = (timeline: number, segment: number): string =>
  [timeline, Math.floor(segment / segmentsPerName), segment % segmentsPerName]
    .map(hex8)
    .join('')
    .toUpperCase()

/** The name of the file in `pg_wal` that says where a timeline branched off. */
export const timelineHistoryName = (timeline: number): string => `${hex8(timeline).toUpperCase()}.history`

/** The inverse of `segmentName`, for either case. */
export const parseSegmentName = (name: string): { timeline: number; segment: number } => ({
  timeline: Number.parseInt(name.slice(0, 8), 16),
  segment: Number.parseInt(name.slice(8, 16), 16) * segmentsPerName + Number.parseInt(name.slice(16, 24), 16),
})

const hex8 = (number: number) => number.toString(16).padStart(8, '0')

/** Bytes of WAL from one position to a later one. */
export const distance = (from: string, to: string): number => Math.max(0, parseLsn(to) - parseLsn(from))
