// Reads a table of events by xid8 snapshot comparison: the rows of transactions that committed since the last read, in
// commit order. With an id or a time as the position, a late commit would be skipped, because its rows have lower values
// than rows already read. Used by the outbox of a project and by the unlogged outbox of row changes.

/** The position of a reader. */
export interface Cursor {
  /** All rows visible in this snapshot have been read. */
  readonly seen: string
  /** After a full batch: the snapshot of the batch and its last row. */
  readonly upTo?: {
    readonly snapshot: string
    readonly at: string
    readonly xid: string
    readonly id: string
  }
}

/** A snapshot that sees nothing, so that all rows are unread. */
export const beginning: Cursor = { seen: '1:1:' }

interface ReadingOptions {
  /** The table must have the columns id and xid. */
  table: string
  /** The column with the time of the insert. */
  time: string
  /** A condition on a row `n`, which the index on (xid, id) must have as its predicate. */
  where?: string
  /** Expressions that a read returns once, by name. */
  facts?: Record<string, string>
  /** Expressions over a row `n` of the table, by name. `moment` is the time of its commit. */
  columns: Record<string, string>
  /** Rows of a batch, as a number or as an expression of it. */
  batchRows: number | string
}

export type Cells = readonly (Buffer | null)[]

export interface OutboxReading {
  /** The position for the next read. */
  readonly cursor: Cursor
  /** The cells of `facts`, in order. */
  readonly facts: (string | undefined)[]
  /** The cells of `columns`, in order, for each row. */
  readonly rows: (string | undefined)[][]
  /** Whether more rows were visible. */
  readonly isFull: boolean
}

const text = (cell: Buffer | null | undefined) => cell?.toString('utf8')
/** The leading columns are snapshot, rows of a batch, moment, xid and id. */
const headerCells = 5

/** Builds a statement with the cursor as $1 to $5 and the caller's values from $6 on. */
export function outboxReader(options: ReadingOptions) {
  const factCount = Object.keys(options.facts ?? {}).length
  return {
    sql: readingStatement(options),

    async read(
      { seen, upTo }: Cursor,
      further: readonly string[],
      ask: (values: (string | null)[]) => Promise<readonly Cells[]>,
    ): Promise<OutboxReading> {
      const { snapshot = null, at = null, xid = null, id = null } = upTo ?? {}
      const answer = await ask([seen, snapshot, at, xid, id, ...further])
      const found = answer.filter(row => row[headerCells - 1] !== null)
      const first = answer[0]!.map(text)
      const last = found.at(-1)?.map(text)
      const visible = upTo?.snapshot ?? first[0]!
      const hasBatch = found.length === Number(first[1])
      return {
        cursor: hasBatch
          ? { seen, upTo: { snapshot: visible, at: last![2]!, xid: last![3]!, id: last![4]! } }
          : { seen: visible },
        facts: first.slice(headerCells, headerCells + factCount),
        rows: found.map(row => row.slice(headerCells + factCount).map(text)),
        isFull: hasBatch || upTo !== undefined,
      }
    },
  }
}

/** A fact: whether rows that the position includes are still there. */
export const leftRows = (table: string, where = 'true') => `
  exists (select from ${table} o
           where ${where} and o.xid < pg_snapshot_xmax($1::pg_snapshot) and pg_visible_in_snapshot(o.xid, $1::pg_snapshot))`

const listed = (expressions: Record<string, string>, prefix: string) =>
  Object.entries(expressions)
    .map(([name, expression]) => `${prefix}${expression} as ${name}`)
    .join('')
const names = (expressions: Record<string, string>, of: string) =>
  Object.keys(expressions)
    .map(name => `, ${of}.${name}`)
    .join('')

/**
 * Reads transaction by transaction. The inner limit makes Postgres walk the index rather than sort a transaction of a
 * million rows at every reading.
 */
const readingStatement = ({
  table,
  time,
  where = 'true',
  facts = {},
  columns,
  batchRows,
}: ReadingOptions) => `
  with recursive written (xid) as (
    (select n.xid from ${table} n where n.xid >= pg_snapshot_xmin($1::pg_snapshot) and ${where} order by n.xid limit 1)
    union all
    select (select n.xid from ${table} n where n.xid > w.xid and ${where} order by n.xid limit 1)
      from written w where w.xid is not null
  ), fresh as (
    select w.xid, coalesce(
             case when current_setting('track_commit_timestamp') = 'on' then pg_xact_commit_timestamp(w.xid::xid) end,
             (select n.${time} from ${table} n where n.xid = w.xid and ${where} order by n.id limit 1)) as moment
      from written w
     where w.xid is not null and not pg_visible_in_snapshot(w.xid, $1::pg_snapshot)
       and ($2::pg_snapshot is null or pg_visible_in_snapshot(w.xid, $2::pg_snapshot))
  )
  select s.snapshot::text, s.batch_rows, r.moment::text, r.xid, r.id${names(facts, 's')}${names(columns, 'r')}
    from (select pg_current_snapshot() as snapshot, (${batchRows}) as batch_rows${listed(facts, ', ')}) s
    left join lateral (
      select d.*
        from (select * from fresh f
               where $3::timestamptz is null or (f.moment, f.xid) >= ($3::timestamptz, $4::xid8)
               order by f.moment, f.xid) t
       cross join lateral (
         select n.id, n.xid, t.moment${listed(columns, ', ')}
           from ${table} n
          where n.xid = t.xid and ${where} and n.id > case when t.xid = $4::xid8 then $5::bigint else 0 end
          order by n.id limit (${batchRows})) d
       limit (${batchRows})
    ) r on true`
