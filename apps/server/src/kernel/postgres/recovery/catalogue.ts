// What can be recovered, read from the archive alone.
import { DamagedFile } from '#src/kernel/objects/frames.ts'
import { MissingPiece } from '#src/kernel/objects/pieces.ts'
import type { ArchivedSegment, ArchiveStore, Segment } from './archive-layout.ts'
import { formatTime, parseTime } from './archive-time.ts'
import { archivedSegments, removeSegments } from './archived-segments.ts'
import { type BaseBackup, baseBackupIds, readBaseBackup, removeBaseBackup } from './base-backup.ts'
import type { SpooledSegment as Received } from './wal-packer.ts'
import {
  formatLsn,
  parseLsn,
  parseSegmentName,
  segmentAt,
  segmentBytes,
  segmentName,
} from './wal-position.ts'
import { inspectSpool } from './wal-writer.ts'

export interface Catalogue {
  /** By the time of their end. */
  baseBackups: BaseBackup[]
  /** Base backups whose manifest cannot be read. */
  damaged: string[]
  /** WAL without gaps, by timeline and position. */
  runs: WalRun[]
}

/** Consecutive segments of one timeline. Only the last may be incomplete. */
export interface WalRun {
  timeline: number
  segments: StoredSegment[]
}

export type StoredSegment = ArchivedSegment | SpooledSegment

/** A segment that is not packed yet. */
export interface SpooledSegment extends Segment {
  name: string
}

/** Every time from `from` on and before `to` can be recovered. */
export interface RecoveryWindow {
  from: string
  to: string
}

/** The times between two windows. */
export interface RecoveryGap extends RecoveryWindow {
  /** False if the gap begins where the server left a timeline, because the instance was recovered to another time. */
  isLoss: boolean
}

export interface RecoveryPlan {
  /** Undefined: the end of the archive. */
  target: string | undefined
  window: RecoveryWindow
  baseBackup: BaseBackup
  segments: StoredSegment[]
  /** The highest in the archive. */
  newestTimeline: number
  wal: { fromLsn: string; toLsn: string; segments: number; storedBytes: number }
}

export type TargetProblem = 'target_outside_window' | 'target_in_future' | 'wal_gap' | 'invalid_target'

/** The time cannot be recovered. */
export class UnreachableTarget extends Error {
  readonly code: TargetProblem
  readonly windows: readonly RecoveryWindow[]
  constructor(code: TargetProblem, message: string, windows: readonly RecoveryWindow[]) {
    super(message)
    this.name = 'UnreachableTarget'
    this.code = code
    this.windows = windows
  }
}

/** Tens of thousands of records may be in the segment that is being received. Who knows its content passes it. */
export async function readCatalogue(store: ArchiveStore, received?: Received): Promise<Catalogue> {
  // The spool first: a segment that is packed meanwhile is found in the archive.
  const spool = await inspectSpool(store, received)
  const segments = new Map<string, StoredSegment>()
  const add = (segment: StoredSegment) => {
    const name = segmentName(segment.timeline, segment.number)
    if ((segments.get(name)?.bytes ?? 0) <= segment.bytes) segments.set(name, segment)
  }
  const { unfinished } = spool
  const last =
    spool.received ??
    (unfinished && { ...unfinished, bytes: unfinished.end.bytes, times: unfinished.found.times })
  for (const { name, bytes, times } of last ? [...spool.toPack, last] : spool.toPack) {
    const { timeline, segment } = parseSegmentName(name)
    add({ timeline, number: segment, bytes, times, name })
  }
  for await (const segment of archivedSegments(store)) add(segment)

  const baseBackups: BaseBackup[] = []
  const damaged: string[] = []
  for (const id of await baseBackupIds(store))
    try {
      baseBackups.push(await readBaseBackup(store, id))
    } catch (error) {
      if (error instanceof DamagedFile) damaged.push(id)
      // Without a manifest it is being made, or was not completed.
      else if (!(error instanceof MissingPiece)) throw error
    }
  baseBackups.sort((one, other) => timeOf(one.finishedAt) - timeOf(other.finishedAt))
  return { baseBackups, damaged, runs: runsOf([...segments.values()]) }
}

function runsOf(segments: StoredSegment[]): WalRun[] {
  segments.sort((one, other) => one.timeline - other.timeline || one.number - other.number)
  const runs: WalRun[] = []
  for (const segment of segments) {
    const before = runs.at(-1)?.segments.at(-1)
    const continues =
      before?.timeline === segment.timeline &&
      before.number + 1 === segment.number &&
      before.bytes === segmentBytes
    if (continues) runs.at(-1)!.segments.push(segment)
    else runs.push({ timeline: segment.timeline, segments: [segment] })
  }
  return runs
}

interface Reach {
  baseBackup: BaseBackup
  run: WalRun
  /** In the run, where the WAL of the base backup starts. */
  first: number
  from: number
  /** The latest end of a transaction. Recovery needs one after its target. */
  to: number
}

/** What can be recovered from a base backup. Undefined if WAL is missing before its end. */
function reachOf(
  runs: readonly WalRun[],
  latestOf: (run: WalRun) => readonly number[],
  baseBackup: BaseBackup,
): Reach | undefined {
  const first = segmentAt(parseLsn(baseBackup.startLsn))
  const end = parseLsn(baseBackup.endLsn)
  const run = runs.find(
    ({ timeline, segments }) =>
      timeline === baseBackup.timeline &&
      segments[0]!.number <= first &&
      end <= segments.at(-1)!.number * segmentBytes + segments.at(-1)!.bytes,
  )
  if (!run) return
  const index = first - run.segments[0]!.number
  const from = timeOf(baseBackup.finishedAt)
  return { baseBackup, run, first: index, from, to: Math.max(from, latestOf(run)[index]!) }
}

/** For each segment the latest end of a transaction in it and those after it. */
function latestEnds({ segments }: WalRun): number[] {
  const latest = segments.map(({ times }) => times?.last ?? 0)
  for (let at = latest.length - 2; at >= 0; at--) latest[at] = Math.max(latest[at]!, latest[at + 1]!)
  return latest
}

/** An archive of years has thousands of base backups and a million segments, and one request asks several times. */
const known = new WeakMap<Catalogue, Reach[]>()

function reaches(catalogue: Catalogue): readonly Reach[] {
  const before = known.get(catalogue)
  if (before) return before
  const latest = new Map(catalogue.runs.map(run => [run, latestEnds(run)]))
  const found = catalogue.baseBackups.flatMap(
    baseBackup => reachOf(catalogue.runs, run => latest.get(run)!, baseBackup) ?? [],
  )
  known.set(catalogue, found)
  return found
}

interface Stretch {
  from: number
  to: number
  /** Whose WAL has the end. */
  run: WalRun
}

/** The windows. */
function stretches(catalogue: Catalogue): Stretch[] {
  const found: Stretch[] = []
  for (const { from, to, run } of reaches(catalogue)) {
    if (from === to) continue
    const last = found.at(-1)
    if (!last || from > last.to) found.push({ from, to, run })
    else if (to > last.to) Object.assign(last, { to, run })
  }
  return found
}

/** By time, without overlaps. */
export const recoveryWindows = (catalogue: Catalogue): RecoveryWindow[] =>
  stretches(catalogue).map(({ from, to }) => ({ from: formatTime(from), to: formatTime(to) }))

export function recoveryGaps(catalogue: Catalogue): RecoveryGap[] {
  const found = stretches(catalogue)
  return found.slice(1).map((next, index) => {
    const before = found[index]!
    return { from: formatTime(before.to), to: formatTime(next.from), isLoss: isLossAfter(catalogue, before) }
  })
}

/** After a loss, the server goes on with the same timeline. After a recovery of the instance, it is on another one. */
const isLossAfter = ({ runs }: Catalogue, { run }: Stretch): boolean =>
  run !== runs.findLast(({ timeline }) => timeline === run.timeline)

/** Throws UnreachableTarget. The target is a time with an offset. */
export function planRecovery(catalogue: Catalogue, target: string, now = Date.now()): RecoveryPlan {
  const windows = recoveryWindows(catalogue)
  const time = parseTime(target)
  if (time === undefined)
    throw new UnreachableTarget('invalid_target', 'The time must be ISO 8601 with an offset.', windows)
  const reach = reaches(catalogue).findLast(({ from, to }) => from <= time && time < to)
  if (!reach) throw unreachable(catalogue, time, now, windows)
  const { baseBackup, run, first } = reach
  const end = segmentAt(parseLsn(baseBackup.endLsn))
  const isLast = ({ number, times }: StoredSegment) => number >= end && (times?.last ?? 0) > time
  const last = run.segments.findIndex((segment, at) => at >= first && isLast(segment))
  return planOf(catalogue, reach, run.segments.slice(first, last + 1), formatTime(time))
}

/**
 * To the latest commit in the archive, after the loss of the cluster. The base backup that ended last may be of a timeline that
 * was left, because an operator put the cluster before back. Throws UnreachableTarget if there is no base backup.
 */
export function planLatest(catalogue: Catalogue): RecoveryPlan {
  const windows = recoveryWindows(catalogue)
  const usable = reaches(catalogue)
  const latest = usable.reduce((to, reach) => Math.max(to, reach.to), 0)
  const reach = usable.findLast(({ to }) => to === latest)
  if (!reach)
    throw new UnreachableTarget('target_outside_window', 'There is no base backup with its WAL.', windows)
  return planOf(catalogue, reach, reach.run.segments.slice(reach.first), undefined)
}

function planOf(
  catalogue: Catalogue,
  { baseBackup, from, to }: Reach,
  segments: StoredSegment[],
  target: string | undefined,
): RecoveryPlan {
  const last = segments.at(-1)!
  const contains = (window: RecoveryWindow) => timeOf(window.from) <= from && to <= timeOf(window.to)
  return {
    target,
    window: recoveryWindows(catalogue).find(contains) ?? { from: formatTime(from), to: formatTime(to) },
    baseBackup,
    segments,
    newestTimeline: Math.max(
      ...[...catalogue.baseBackups, ...catalogue.runs].map(({ timeline }) => timeline),
    ),
    wal: {
      fromLsn: baseBackup.startLsn,
      toLsn: formatLsn(last.number * segmentBytes + last.bytes),
      segments: segments.length,
      storedBytes: segments.reduce(
        (sum, each) => sum + ('storedBytes' in each ? each.storedBytes : each.bytes),
        0,
      ),
    },
  }
}

function unreachable(
  catalogue: Catalogue,
  time: number,
  now: number,
  windows: readonly RecoveryWindow[],
): UnreachableTarget {
  if (time > now * 1000)
    return new UnreachableTarget('target_in_future', 'The time is in the future.', windows)
  const before = stretches(catalogue).findLast(({ to }) => to <= time)
  const isBeforeLast = catalogue.runs.some(({ segments }) =>
    segments.some(({ times }) => (times?.last ?? 0) > time),
  )
  if (before && isBeforeLast) {
    const reason = isLossAfter(catalogue, before)
      ? 'The WAL of this time is missing in the archive.'
      : 'This time cannot be recovered, because the instance was recovered to another time then.'
    return new UnreachableTarget('wal_gap', reason, windows)
  }
  const message = before
    ? 'The time is after the last transaction in the archive.'
    : 'The time is before the first base backup.'
  return new UnreachableTarget('target_outside_window', message, windows)
}

/**
 * Whether the latest WAL of the server's timeline can be replayed from no base backup, or only from one that ended before the
 * given time. Call it after `catchUp`, because the WAL of a base backup that has just ended may not be archived yet.
 */
export function needsBaseBackup(catalogue: Catalogue, timeline: number, notBefore: string): boolean {
  const latest = reaches(catalogue).findLast(({ baseBackup }) => baseBackup.timeline === timeline)
  if (!latest || latest.from < timeOf(notBefore)) return true
  return latest.run !== catalogue.runs.findLast(each => each.timeline === timeline)
}

/**
 * Removes what is not needed to recover any time since `keepSince`. The newest usable base backup stays. After an exchange of
 * clusters the server is on another timeline, and each has its own base backups.
 */
export async function pruneArchive(store: ArchiveStore, keepSince: string): Promise<void> {
  const catalogue = await readCatalogue(store)
  const usable = reaches(catalogue)
  const newest = usable.at(-1)
  if (!newest) return
  const limit = timeOf(keepSince)
  const lastBefore = new Map<number, number>()
  usable.forEach(({ baseBackup, from }, at) => {
    if (from <= limit) lastBefore.set(baseBackup.timeline, at)
  })
  const oldest = new Map<number, number>()
  usable.forEach((reach, at) => {
    const { timeline } = reach.baseBackup
    const isReplaced = at < (lastBefore.get(timeline) ?? 0)
    const isNeeded = !isReplaced && (reach.to > limit || reach === newest)
    if (isNeeded && !oldest.has(timeline)) oldest.set(timeline, reach.from)
  })
  const first = new Map<number, number>()
  let oldestId: string | undefined
  for (const { id, timeline, startLsn, finishedAt } of catalogue.baseBackups)
    if (timeOf(finishedAt) < (oldest.get(timeline) ?? newest.from)) await removeBaseBackup(store, id)
    else {
      first.set(timeline, Math.min(first.get(timeline) ?? Infinity, segmentAt(parseLsn(startLsn))))
      if (oldestId === undefined || id < oldestId) oldestId = id
    }
  // Ids sort by the time of their creation.
  for (const id of catalogue.damaged)
    if (oldestId !== undefined && id < oldestId) await removeBaseBackup(store, id)
  await removeSegments(store, ({ timeline, number }) => number < (first.get(timeline) ?? Infinity))
}

/** Removes base backups that were not completed. Called at the start, while none is being made. */
export async function sweepBaseBackups(store: ArchiveStore): Promise<string[]> {
  const swept: string[] = []
  for (const id of await baseBackupIds(store))
    try {
      await readBaseBackup(store, id)
    } catch (error) {
      if (error instanceof DamagedFile) continue
      if (!(error instanceof MissingPiece)) throw error
      await removeBaseBackup(store, id)
      swept.push(id)
    }
  return swept
}

function timeOf(text: string): number {
  const time = parseTime(text)
  if (time === undefined) throw new Error(`${text} is not a time`)
  return time
}
