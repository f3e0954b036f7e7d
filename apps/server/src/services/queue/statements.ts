// The statements on one queue's tables, with every parameter's type written out so that plans can be kept. Each is one
// transaction: a message is taken, moved or put back whole, or not at all. The functions of schema pgmq do the same for
// SQL; these do without them, since a database that lacks them still has messages to serve.
import { identifier } from '#src/kernel/postgres/sql.ts'
import { type Statement, statement } from '#src/tenancy/databases.ts'
import { horizonSeconds, margin } from './heads.ts'

export interface QueueStatements {
  /** Body of the request as JSON, delay in seconds. */
  readonly send: Statement
  readonly sendBatch: Statement
  /** Where to begin, seconds to hide them for, how many. */
  readonly read: Statement
  /** Where to begin. */
  readonly pop: Statement
  /** From an id on: the lowest one that is visible soon, and the milliseconds it took to find it. */
  readonly head: Statement
  /** An array of ids. */
  readonly ack: Statement
  readonly archive: Statement
  /** Limit, offset. */
  readonly archived: Statement
  /** One id. */
  readonly replay: Statement
  readonly metrics: Statement
}

/** Of one answer; the connection takes a little more. */
const maxAnswerBytes = 60_000_000
const all = 'msg_id, read_ct, enqueued_at, vt, message, headers'
const inSeconds = (parameter: string) =>
  `pg_catalog.clock_timestamp() + pg_catalog.make_interval(secs => ${parameter}::float8)`
/** What could not be sent must not be taken either: the statement refuses, and is undone. */
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
  /** Wall-clock time: in a long transaction now() stands still. Whoever has a message locked is about to take it. */
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

    // As an array, what was picked is found again by one pass through the index; a join looks up each by itself.
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

    // It starts over: whoever gives up on a message after some reads would put it straight back.
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
