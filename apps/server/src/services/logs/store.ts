import type { Database } from '#src/kernel/postgres/database.ts'
import { type SqlFragment, sql } from '#src/kernel/postgres/sql.ts'
import { type Encoded, itemsPerBlock } from './block.ts'
import type { LogQuery, StoredLine } from './line.ts'

/** Positions ascend in the order of commits, because each writer waits for the one before it in the same project. */
export const append = (control: Database, projectId: string, { positions, lines, block }: Encoded) =>
  control.repeat(sql`
    select append_project_logs(
      ${projectId}, ${positions}, ${lines.length === 0 ? null : JSON.stringify(lines)}::json, ${block?.content ?? null},
      ${timeOf(block?.firstAt)}, ${timeOf(block?.lastAt)})`)

const timeOf = (milliseconds: number | undefined) =>
  milliseconds === undefined ? null : new Date(milliseconds).toISOString()

export async function readLines(
  control: Database,
  projectId: string,
  { source, name, after, level, requestId, limit }: LogQuery,
): Promise<StoredLine[]> {
  const lines = await control.rows<StoredLine>(sql`
    select id::text, name, at, level, event, message, request_id, facts from project_logs
     where project_id = ${projectId} and source = ${source} and name = ${name}
       and id > ${after ?? '0'}::bigint
       and (${level ?? null}::text is null or level = ${level ?? null})
       and (${requestId ?? null}::text is null or request_id = ${requestId ?? null})
     order by case when ${after !== undefined} then id else -id end limit ${limit}`)
  return after === undefined ? lines.reverse() : lines
}

export interface Range {
  /** Positions. */
  readonly before: number
  readonly after: number
  /** Times in milliseconds since 1970. */
  readonly from: number | undefined
  readonly to: number | undefined
}

/** How much is read at once. The last row may exceed the bytes. */
export interface Slice {
  readonly rows: number
  readonly bytes: number
}

interface SliceOf<T> {
  readonly rows: T[]
  /** There is nothing before these rows. */
  readonly isEnd: boolean
}

/** The clocks of nodes and of Postgres differ by less. */
const clockDifferenceMs = 3_600_000

/** A position is at least the time of its commit, so that earlier ones need not be read. */
const firstPosition = ({ from, after }: Range) =>
  Math.max(after, from === undefined ? 0 : (from - clockDifferenceMs) * 1000)

/** Blocks with an entry in the range, the latest first. The first and the last may have further entries. */
export async function readBlocks(
  control: Database,
  projectId: string,
  range: Range,
  slice: Slice,
): Promise<SliceOf<{ position: number; content: string }>> {
  const [from, to] = [timeOf(range.from), timeOf(range.to)]
  // A block that begins before the first position may contain it.
  const first = Math.max(0, firstPosition(range) - itemsPerBlock)
  const rows = await control.rows<{ position: string; content: string; found: string }>(sql`
    select position::text, content, found::text from (
      select position, content, count(*) over () as found,
             sum(octet_length(content)) over (order by position desc) - octet_length(content) as later_bytes
        from (
          select position, content from access_log_blocks
           where project_id = ${projectId} and position < ${range.before} and position >= ${first}
             and (${from}::timestamptz is null or last_at >= ${from})
             and (${to}::timestamptz is null or first_at < ${to})
           order by position desc limit ${slice.rows}) as latest) as counted
     where later_bytes < ${slice.bytes} order by position desc`)
  return {
    rows: rows.map(({ position, content }) => ({ position: Number(position), content })),
    isEnd: isEnd(rows, slice),
  }
}

/** Lines of all functions, the latest first. */
export async function readAllLines(
  control: Database,
  projectId: string,
  range: Range,
  slice: Slice,
): Promise<SliceOf<StoredLine>> {
  const [from, to] = [timeOf(range.from), timeOf(range.to)]
  const rows = await control.rows<StoredLine & { found: string }>(sql`
    select id::text, name, at, level, event, message, request_id, facts, found::text from (
      select latest.*, count(*) over () as found,
             sum(octet_length(message) + 200) over (order by id desc) - octet_length(message) as later_bytes
        from (
          select * from project_logs
           where project_id = ${projectId} and source = 'functions' and id < ${range.before}
             and id > ${firstPosition(range)}
             and (${from}::timestamptz is null or at >= ${from}) and (${to}::timestamptz is null or at < ${to})
           order by id desc limit ${slice.rows}) as latest) as counted
     where later_bytes < ${slice.bytes} order by counted.id desc`)
  return { rows, isEnd: isEnd(rows, slice) }
}

const isEnd = (rows: readonly { found: string }[], slice: Slice) => {
  const found = Number(rows[0]?.found ?? 0)
  return found < slice.rows && rows.length === found
}

export const removeLines = (control: Database, projectId: string, source: string, name: string) =>
  control.run(sql`
    delete from project_logs where project_id = ${projectId} and source = ${source} and name = ${name}`)

export const removeOld = (control: Database, days: number) =>
  control.run(sql`
    delete from project_logs where (project_id, id) in (
      select project_id, id from project_logs where at < now() - make_interval(days => ${days}) limit 10000)`)

/** Keeps the latest lines of a project that take at most so many bytes. */
export const trim = (control: Database, projectId: string, maxBytes: number) =>
  control.run(sql`
    delete from project_logs where project_id = ${projectId} and id <= coalesce((
      select max(id) from (
        select id, sum(octet_length(message) + 200) over (order by id desc) as bytes
          from project_logs where project_id = ${projectId}) as counted
       where bytes > ${maxBytes}), 0)`)

/** Projects whose oldest block is older. */
export const projectsWithOldBlocks = (control: Database, days: number) =>
  control.rows<{ project_id: string }>(sql`
    select project_id from project_log_state as state
     where (select last_at from access_log_blocks where project_id = state.project_id order by position limit 1)
           < now() - make_interval(days => ${days})
     limit 1000`)

export const projectsWithLargeBlocks = (control: Database, maxBytes: number) =>
  control.rows<{ project_id: string }>(sql`
    select project_id from project_log_state where block_bytes > ${maxBytes}`)

/** Returns how many were removed. Up to a thousand at once, the oldest first. */
export const removeOldBlocks = (control: Database, projectId: string, days: number) =>
  removeOldest(control, projectId, sql`last_at < now() - make_interval(days => ${days})`)

/** Until they take at most so many bytes. */
export const removeExcessBlocks = (control: Database, projectId: string, maxBytes: number) =>
  removeOldest(
    control,
    projectId,
    sql`older_bytes < (select block_bytes - ${maxBytes} from project_log_state where project_id = ${projectId})`,
  )

async function removeOldest(control: Database, projectId: string, condition: SqlFragment): Promise<number> {
  const row = await control.row<{ count: string }>(sql`
    with removed as (
      delete from access_log_blocks where project_id = ${projectId} and position in (
        select position from (
          select position, last_at,
                 sum(octet_length(content) + 150) over (order by position) - octet_length(content) - 150 as older_bytes
            from (
              select position, last_at, content from access_log_blocks
               where project_id = ${projectId} order by position limit 1000) as oldest) as counted
         where ${condition})
      returning octet_length(content) + 150 as bytes),
    total as (select count(*) as count, coalesce(sum(bytes), 0) as bytes from removed),
    updated as (
      update project_log_state set block_bytes = block_bytes - (select bytes from total)
       where project_id = ${projectId})
    select count::text from total`)
  return Number(row?.count ?? 0)
}
