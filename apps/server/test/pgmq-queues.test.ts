// Queue functions of pgmq in SQL, as the project's owner: signatures, create and drop, and valid names.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlatform, type TestPlatform } from './harness.ts'
import { type QueueProject, queueProject } from './queue-database.ts'

let platform: TestPlatform
let project: QueueProject
let rows: QueueProject['rows']
let values: QueueProject['values']
let value: QueueProject['value']
let queue: QueueProject['queue']

before(async () => {
  platform = await startPlatform()
  project = await queueProject(platform)
  ;({ rows, values, value, queue } = project)
})
after(async () => {
  await project?.close()
  await platform.stop()
})

test('pgmq: names, arguments and results match the original extension', async () => {
  const functions = await values(`
    select format('%s(%s) %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid))
      from pg_proc p where p.pronamespace = 'pgmq'::regnamespace and p.proname not like '\\_%' order by 1`)
  const message = 'SETOF pgmq.message_record'
  const time = 'timestamp with time zone'
  const expected = [
    'acquire_queue_lock(queue_name text) void',
    'archive(queue_name text, msg_id bigint) boolean',
    'archive(queue_name text, msg_ids bigint[]) SETOF bigint',
    `convert_archive_partitioned(table_name text, partition_interval text DEFAULT '10000'::text, retention_interval text DEFAULT '100000'::text, leading_partition integer DEFAULT 10) void`,
    'create(queue_name text) void',
    'create_non_partitioned(queue_name text) void',
    `create_partitioned(queue_name text, partition_interval text DEFAULT '10000'::text, retention_interval text DEFAULT '100000'::text) void`,
    'create_unlogged(queue_name text) void',
    'delete(queue_name text, msg_id bigint) boolean',
    'delete(queue_name text, msg_ids bigint[]) SETOF bigint',
    'detach_archive(queue_name text) void',
    'drop_queue(queue_name text) boolean',
    'drop_queue(queue_name text, partitioned boolean) boolean',
    'format_table_name(queue_name text, prefix text) text',
    'list_queues() SETOF pgmq.queue_record',
    'metrics(queue_name text) pgmq.metrics_result',
    'metrics_all() SETOF pgmq.metrics_result',
    `pop(queue_name text) ${message}`,
    'purge_queue(queue_name text) bigint',
    `read(queue_name text, vt integer, qty integer, conditional jsonb DEFAULT '{}'::jsonb) ${message}`,
    `read_with_poll(queue_name text, vt integer, qty integer, max_poll_seconds integer DEFAULT 5, poll_interval_ms integer DEFAULT 100, conditional jsonb DEFAULT '{}'::jsonb) ${message}`,
    'send(queue_name text, msg jsonb) SETOF bigint',
    'send(queue_name text, msg jsonb, delay integer) SETOF bigint',
    `send(queue_name text, msg jsonb, delay ${time}) SETOF bigint`,
    'send(queue_name text, msg jsonb, headers jsonb) SETOF bigint',
    'send(queue_name text, msg jsonb, headers jsonb, delay integer) SETOF bigint',
    `send(queue_name text, msg jsonb, headers jsonb, delay ${time}) SETOF bigint`,
    'send_batch(queue_name text, msgs jsonb[]) SETOF bigint',
    'send_batch(queue_name text, msgs jsonb[], delay integer) SETOF bigint',
    `send_batch(queue_name text, msgs jsonb[], delay ${time}) SETOF bigint`,
    'send_batch(queue_name text, msgs jsonb[], headers jsonb[]) SETOF bigint',
    'send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay integer) SETOF bigint',
    `send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay ${time}) SETOF bigint`,
    `set_vt(queue_name text, msg_id bigint, vt integer) ${message}`,
    'validate_queue_name(queue_name text) void',
  ]
  assert.deepEqual(functions.toSorted(), expected.toSorted())
  const columns = async (type: string) =>
    values(
      `select a.attname || ' ' || format_type(a.atttypid, a.atttypmod) from pg_attribute a
        where a.attrelid = $1::regclass and a.attnum > 0 order by a.attnum`,
      [type],
    )
  assert.deepEqual(await columns('pgmq.message_record'), [
    'msg_id bigint',
    'read_ct integer',
    `enqueued_at ${time}`,
    `vt ${time}`,
    'message jsonb',
    'headers jsonb',
  ])
  assert.deepEqual(await columns('pgmq.queue_record'), [
    'queue_name character varying',
    'is_partitioned boolean',
    'is_unlogged boolean',
    `created_at ${time}`,
  ])
  assert.deepEqual(await columns('pgmq.metrics_result'), [
    'queue_name text',
    'queue_length bigint',
    'newest_msg_age_sec integer',
    'oldest_msg_age_sec integer',
    'total_messages bigint',
    `scrape_time ${time}`,
    'queue_visible_length bigint',
  ])
})

test('pgmq: a queue has two tables, a sequence and indexes with fixed names', async () => {
  await rows(`select pgmq.create('parts')`)
  const parts = await values(
    `select c.relname || ' ' || c.relkind::text from pg_class c
      where c.relnamespace = 'pgmq'::regnamespace and c.relname ~ '^[qa]_parts' order by 1`,
  )
  assert.deepEqual(parts, [
    'a_parts r',
    'a_parts_archived_at_idx i',
    'a_parts_pkey i',
    'q_parts r',
    'q_parts_msg_id_seq S',
    'q_parts_pkey i',
  ])
  await assert.rejects(rows('insert into pgmq.q_parts (msg_id, vt) values (1, now())'), { code: '428C9' })
  const [options] = await values(`select reloptions::text from pg_class where oid = 'pgmq.q_parts'::regclass`)
  assert.match(options, /autovacuum_vacuum_scale_factor/)
})

test('pgmq: create adds only missing objects', async () => {
  await rows(`select pgmq.create('again'), pgmq.create('again')`)
  await rows(`select pgmq.send('again', '1')`)
  await rows(`select pgmq.create_non_partitioned('again'), pgmq.create_unlogged('again')`)
  assert.deepEqual(
    await rows(`select queue_name, is_unlogged from pgmq.list_queues() where queue_name = 'again'`),
    [{ queue_name: 'again', is_unlogged: false }],
  )
  assert.equal(await value(`select count(*)::int from pgmq.q_again`), 1)
  await rows(`drop table pgmq.a_again`)
  await rows(`delete from pgmq.meta where queue_name = 'again'`)
  await rows(`select pgmq.create('again')`)
  assert.equal(await value(`select pgmq.archive('again', 1)`), true)
  assert.equal(await value(`select count(*)::int from pgmq.list_queues() where queue_name = 'again'`), 1)
})

test('pgmq: queue names are case-insensitive', async () => {
  await rows(`select pgmq.create('MixedCase'), pgmq.create('mixedcase')`)
  assert.deepEqual(
    await values(`select queue_name from pgmq.list_queues() where queue_name ilike 'mixedcase'`),
    ['MixedCase'],
  )
  await rows(`select pgmq.send('MIXEDCASE', '1')`)
  assert.equal(await value(`select queue_length::int from pgmq.metrics('mixedcase')`), 1)
  assert.equal(await value(`select pgmq.drop_queue('mixedCASE')`), true)
  assert.equal(
    await value(`select count(*)::int from pgmq.list_queues() where queue_name ilike 'mixedcase'`),
    0,
  )
})

test('pgmq: every function rejects invalid names with a reason', async () => {
  const refused = { code: '22023', message: /queue name|needs a name/ }
  for (const name of ['', null, 'a$b', 'a;b', 'a--b', "a'b", 'x'.repeat(48), 'é'.repeat(24)])
    for (const call of [
      'pgmq.create($1)',
      'pgmq.create_unlogged($1)',
      'pgmq.drop_queue($1)',
      `pgmq.send($1, '{}')`,
      `pgmq.send_batch($1, array['{}']::jsonb[])`,
      'pgmq.read($1, 0, 1)',
      'pgmq.read_with_poll($1, 0, 1, 0)',
      'pgmq.pop($1)',
      'pgmq.delete($1, 1)',
      'pgmq.archive($1, array[1::bigint])',
      'pgmq.set_vt($1, 1, 0)',
      'pgmq.purge_queue($1)',
      'pgmq.detach_archive($1)',
      'pgmq.metrics($1)',
    ])
      await assert.rejects(rows(`select ${call}`, [name]), refused, `${call} of ${name}`)
})

test('pgmq: names are escaped in all statements', async () => {
  for (const name of ['x'.repeat(47), 'with space', '"quoted"', 'é', 'my-queue', '1', 'select', '%I']) {
    await rows('select pgmq.create($1)', [name])
    assert.equal(await value('select pgmq.send($1, $2)', [name, '"m"']), '1')
    assert.equal(await value('select message from pgmq.read($1, 0, 1)', [name]), 'm')
    assert.equal(await value('select pgmq.archive($1, 1)', [name]), true)
    assert.equal(await value('select total_messages::int from pgmq.metrics($1)', [name]), 1)
    assert.equal(await value('select pgmq.purge_queue($1)', [name]), '0')
    assert.equal(await value('select pgmq.drop_queue($1)', [name]), true)
  }
  const odd = `") as x, lateral (select pgmq.drop_queue('y')`
  await assert.rejects(rows('select pgmq.read($1, 0, 1)', [odd]), { code: '22023' })
  await assert.rejects(rows('select pgmq.read($1, 0, 1)', ['") x, (select 1']), { code: '42P01' })
})

test('pgmq: a queue whose tables would collide with those of another is rejected', async () => {
  await rows(`select pgmq.create('one')`)
  await assert.rejects(rows(`select pgmq.create('one_msg_id_seq')`), {
    code: '42P07',
    message: /another queue/,
  })
  await rows(`select pgmq.create('two_msg_id_seq')`)
  await assert.rejects(rows(`select pgmq.create('two')`), { code: '42P07', message: /another queue/ })
  assert.equal(await value(`select pgmq.drop_queue('two')`), false)
  assert.equal(await value(`select pgmq.drop_queue('two_msg_id_seq')`), true)
  await rows(`select pgmq.create('two')`)
})

test('pgmq: partitioned queues are rejected with a hint', async () => {
  await assert.rejects(rows(`select pgmq.create_partitioned('p')`), { code: '0A000', hint: /pgmq\.create/ })
  await assert.rejects(rows(`select pgmq.create_partitioned('p', '1 day', '7 days')`), { code: '0A000' })
  await assert.rejects(rows(`select pgmq.convert_archive_partitioned('a_p')`), { code: '0A000' })
})

test('pgmq: drop removes queue, archive and list row, and is transactional', async () => {
  const name = await queue('a')
  await rows(`select pgmq.archive('${name}', 1)`)
  await rows('begin')
  assert.equal(await value('select pgmq.drop_queue($1)', [name]), true)
  await rows('rollback')
  assert.equal(await value(`select count(*)::int from pgmq.a_${name}`), 1)
  assert.equal(await value('select pgmq.drop_queue($1, false)', [name]), true)
  assert.equal(await value('select pgmq.drop_queue($1, true)', [name]), false)
  assert.equal(await value('select pgmq.drop_queue($1)', [name]), false)
  for (const table of [`q_${name}`, `a_${name}`])
    assert.equal(await value('select to_regclass($1)', [`pgmq.${table}`]), null)
  assert.equal(await value('select count(*)::int from pgmq.meta where queue_name = $1', [name]), 0)
  await rows('select pgmq.create($1)', [name])
  assert.equal(await value('select pgmq.send($1, $2)', [name, '1']), '1')
})

test('pgmq: drop cleans up a queue whose tables were dropped by hand', async () => {
  const [one, two] = [await queue('a'), await queue('a')]
  await rows(`drop table pgmq.q_${one}`)
  assert.equal(await value('select pgmq.drop_queue($1)', [one]), true)
  await rows(`drop table pgmq.a_${two}`)
  assert.equal(await value('select pgmq.drop_queue($1)', [two]), true)
  assert.equal(
    await value(`select count(*)::int from pgmq.metrics_all() where queue_name = any($1)`, [[one, two]]),
    0,
  )
})

test('pgmq: a queue with dependent objects is not dropped', async () => {
  const name = await queue()
  await rows(`create view backlog as select * from pgmq.q_${name}`)
  await assert.rejects(rows('select pgmq.drop_queue($1)', [name]), { code: '2BP01' })
  await rows('drop view backlog')
  assert.equal(await value('select pgmq.drop_queue($1)', [name]), true)
})
