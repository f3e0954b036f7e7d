// SQL statements of one queue. Parameter types are explicit, so that plans can be cached. Each statement is one transaction,
// so a message is read, moved or put back atomically. The functions of schema pgmq do the same for SQL, but these statements
// do not need them, because a database may lack the functions and still have messages.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { type CallerStatement, statement } from '#src/tenancy/databases.ts'
import { horizonSeconds, margin } from './head-cache.ts'

export interface QueueStatements {
  /** Body of the request as JSON, delay in seconds. */
  readonly send: CallerStatement
  readonly sendBatch: CallerStatement
  /** Start id, visibility timeout in seconds, number of messages. */
  readonly read: CallerStatement
  /** Start id. */
  readonly pop: CallerStatement
  /** The lowest id from a start id on that is visible soon, and the duration in milliseconds. */
  readonly head: CallerStatement
  /** An array of ids. */
  readonly ack: CallerStatement
  readonly archive: CallerStatement
  /** Limit, offset. */
  readonly archived: CallerStatement
  /** One id. */
  readonly replay: CallerStatement
  readonly metrics: CallerStatement
}

/** Maximum size of one answer. The limit of the connection is a little higher. */
const maxAnswerBytes = 60_000_000
const all = 'msg_id, read_ct, enqueued_at, vt, message, headers'
const inSeconds = (parameter: string) =>
  `pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => ${parameter}::float8)`
/** A message that cannot be sent must not become invisible. So the statement fails and is rolled back. */
const sendable = (json: string, rows: string) => `
  select case when pg_catalog.octet_length(answer::text) > ${maxAnswerBytes}
              then platform.refuse('54000', 'too much')::json else answer end
    from (select ${json} as answer from ${rows} r) a`
const listed = (rows: string, order: string) =>
  sendable(`coalesce(pg_catalog.json_agg(pg_catalog.row_to_json(r) order by ${order}), '[]')`, rows)
const idsOf = (rows: string) =>
  `select coalesce(pg_catalog.json_agg(msg_id order by msg_id), '[]') from ${rows}`

export const listQueues = statement(
  `select coalesce(pg_catalog.json_agg(pg_catalog.row_to_json(m) order by m.queue_name), '[]')
     from (select queue_name, is_partitioned, is_unlogged, created_at from pgmq.meta
            order by queue_name limit 10000) m`,
  true,
)

export function statementsOf(name: string): QueueStatements {
  const queue = `pgmq.${identifier(`q_${name}`)}`
  const archive = `pgmq.${identifier(`a_${name}`)}`
  const sequence = `pgmq.${identifier(`q_${name}_msg_id_seq`)}`
  /** clock_timestamp(), because now() does not advance in a long transaction. A locked message is being read by another session. */
  const visible = (limit: string) => `
    select msg_id from ${queue}
     where msg_id >= $1::bigint and vt <= (select pg_catalog.clock_timestamp())
     order by msg_id limit ${limit} for update skip locked`
  const quick = (sql: string) => statement(sql, true)

  return {
    send: quick(`
      insert into ${queue} (vt, message, headers)
      select ${inSeconds('$2')}, body -> 'message', nullif(body -> 'headers', 'null')
        from (select $1::jsonb as body) b
      returning msg_id`),

    sendBatch: quick(`
      with sent as (
        insert into ${queue} (vt, message, headers)
        select ${inSeconds('$2')}, m.message, nullif(body -> 'headers' -> (m.place - 1)::int, 'null')
          from (select $1::jsonb as body) b,
               pg_catalog.jsonb_array_elements(body -> 'messages') with ordinality m (message, place)
         order by m.place
        returning msg_id)
      ${idsOf('sent')}`),

    // With an array the update scans the index once. A join would look up every message separately.
    read: quick(`
      with taken as (
        update ${queue} set vt = ${inSeconds('$2')}, read_ct = read_ct + 1
         where msg_id = any(array(${visible('$3::int')}))
        returning ${all})
      ${listed('taken', 'r.msg_id')}`),

    pop: quick(`
      with popped as (delete from ${queue} where msg_id = any(array(${visible('1')})) returning ${all})
      ${sendable('pg_catalog.row_to_json(r)', 'popped')}`),

    head: quick(`
      with found as materialized (
        select coalesce(
          (select msg_id from ${queue}
            where msg_id >= $1::bigint and vt <= (select pg_catalog.clock_timestamp()) + interval '${horizonSeconds} seconds'
            order by msg_id limit 1),
          (select max(msg_id) from ${queue}), 0) - ${margin} as msg_id)
      select msg_id, extract(epoch from pg_catalog.clock_timestamp() - pg_catalog.statement_timestamp()) * 1000
        from found`),

    ack: quick(`
      with gone as (delete from ${queue} where msg_id = any($1::bigint[]) returning msg_id)
      ${idsOf('gone')}`),

    archive: quick(`
      with gone as (delete from ${queue} where msg_id = any($1::bigint[]) returning ${all}), moved as (
        insert into ${archive} (${all}) select ${all} from gone returning msg_id)
      ${idsOf('moved')}`),

    archived: quick(
      listed(
        `(select ${all}, archived_at from ${archive}
           order by archived_at desc, msg_id desc limit $1::bigint offset $2::bigint)`,
        'r.archived_at desc, r.msg_id desc',
      ),
    ),

    // Reset read_ct, because consumers that drop messages after some reads would otherwise archive it again at once.
    replay: quick(`
      with gone as (delete from ${archive} where msg_id = $1::bigint returning ${all})
      insert into ${queue} (${all}) overriding system value
      select msg_id, 0, enqueued_at, pg_catalog.clock_timestamp(), message, headers from gone
      returning msg_id`),

    metrics: quick(`
      select pg_catalog.json_build_object(
          'queue_name', ${`'${name}'`}, 'queue_length', count(*),
          'queue_visible_length', count(*) filter (where vt <= pg_catalog.clock_timestamp()),
          'newest_msg_age_sec', pg_catalog.trunc(extract(epoch from pg_catalog.now() - max(enqueued_at))),
          'oldest_msg_age_sec', pg_catalog.trunc(extract(epoch from pg_catalog.now() - min(enqueued_at))),
          'total_messages', (select case when is_called then last_value else 0 end from ${sequence}),
          'scrape_time', pg_catalog.now())
        from ${queue}`),
  }
}
