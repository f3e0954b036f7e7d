// Message functions of pgmq in SQL, as the project's owner, with all their signatures.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from '#src/kernel/postgres/sql.ts'
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

/** Waits until this many sessions of the project sleep between two polls. */
async function asleep(count: number): Promise<void> {
  for (;;) {
    const [row] = await platform.asSuperuser('postgres', session =>
      session.rows<{ count: number }>(
        sql`select count(*)::int as count from pg_stat_activity where datname = ${project.ref} and wait_event = 'PgSleep'`,
      ),
    )
    if (row!.count === count) return
    await sleep(10)
  }
}

const secondsFromNow = async (name: string, id: string) =>
  Number(
    await value(`select extract(epoch from vt - clock_timestamp()) from pgmq.q_${name} where msg_id = $1`, [
      id,
    ]),
  )
const isAbout = (seconds: number, wanted: number) =>
  assert.ok(seconds > wanted - 60 && seconds <= wanted, `${seconds} is about ${wanted}`)

test('pgmq: send has six signatures', async () => {
  const name = await queue()
  const sent: [string, number, unknown][] = [
    [`pgmq.send('${name}', '{"a":1}')`, 0, null],
    [`pgmq.send('${name}', '{"a":1}', 3600)`, 3600, null],
    [`pgmq.send('${name}', '{"a":1}', now() + interval '2 hours')`, 7200, null],
    [`pgmq.send('${name}', '{"a":1}', '{"h":1}'::jsonb)`, 0, { h: 1 }],
    [`pgmq.send('${name}', '{"a":1}', '{"h":1}', 3600)`, 3600, { h: 1 }],
    [`pgmq.send('${name}', '{"a":1}', '{"h":1}', now() + interval '2 hours')`, 7200, { h: 1 }],
    [`pgmq.send(queue_name => '${name}', msg => '{"a":1}', delay => 3600)`, 3600, null],
    [`pgmq.send(msg => '{"a":1}', headers => '{"h":1}', queue_name => '${name}')`, 0, { h: 1 }],
    [`pgmq.send('${name}', '{"a":1}', null::integer)`, 0, null],
  ]
  for (const [place, [call, delay, headers]] of sent.entries()) {
    const id = String(place + 1)
    assert.deepEqual(await rows(`select * from ${call}`), [{ send: id }], call)
    const [row] = await rows(`select message, headers, read_ct from pgmq.q_${name} where msg_id = ${id}`)
    assert.deepEqual(row, { message: { a: 1 }, headers, read_ct: 0 }, call)
    isAbout(await secondsFromNow(name, id), delay)
  }
})

test('pgmq: send_batch has six signatures and keeps order and headers', async () => {
  const name = await queue()
  const batch = `array['"a"', '"b"', '"c"']::jsonb[]`
  const headers = `array['1', null, '3']::jsonb[]`
  const sent: [string, number, unknown[]][] = [
    [`pgmq.send_batch('${name}', ${batch})`, 0, [null, null, null]],
    [`pgmq.send_batch('${name}', ${batch}, 3600)`, 3600, [null, null, null]],
    [`pgmq.send_batch('${name}', ${batch}, now() + interval '2 hours')`, 7200, [null, null, null]],
    [`pgmq.send_batch('${name}', ${batch}, ${headers})`, 0, [1, null, 3]],
    [`pgmq.send_batch('${name}', ${batch}, ${headers}, 3600)`, 3600, [1, null, 3]],
    [`pgmq.send_batch('${name}', ${batch}, ${headers}, now() + interval '2 hours')`, 7200, [1, null, 3]],
    [`pgmq.send_batch(queue_name => '${name}', msgs => ${batch}, delay => 3600)`, 3600, [null, null, null]],
    [`pgmq.send_batch('${name}', ${batch}, array['1']::jsonb[])`, 0, [1, null, null]],
  ]
  for (const [place, [call, delay, expected]] of sent.entries()) {
    const ids = [1, 2, 3].map(each => String(place * 3 + each))
    assert.deepEqual(
      await rows(`select * from ${call}`),
      ids.map(id => ({ send_batch: id })),
      call,
    )
    const stored = await rows(
      `select message, headers from pgmq.q_${name} where msg_id = any($1) order by msg_id`,
      [ids],
    )
    assert.deepEqual(
      stored,
      ['a', 'b', 'c'].map((message, nth) => ({ message, headers: expected[nth] })),
      call,
    )
    isAbout(await secondsFromNow(name, ids[2]!), delay)
  }
  assert.deepEqual(await rows(`select * from pgmq.send_batch('${name}', array[]::jsonb[])`), [])
  await assert.rejects(rows(`select pgmq.send_batch('${name}', array['1']::jsonb[], ${headers})`), {
    code: '22023',
  })
})

test('pgmq: a batch of thousands keeps its order', async () => {
  const name = await queue()
  const ids = await values(
    `select pgmq.send_batch('${name}', array(select to_jsonb(n) from generate_series(1, 5000) n order by n))`,
  )
  assert.deepEqual(
    ids,
    ids.toSorted((a, b) => Number(a) - Number(b)),
  )
  assert.equal(await value(`select count(*)::int from pgmq.q_${name} where message <> to_jsonb(msg_id)`), 0)
})

test('pgmq: read returns the oldest visible messages with the new deadline and read count', async () => {
  const name = await queue('a', 'b', 'c')
  const first = await rows(`select * from pgmq.read('${name}', 3600, 2)`)
  assert.deepEqual(Object.keys(first[0]), ['msg_id', 'read_ct', 'enqueued_at', 'vt', 'message', 'headers'])
  assert.deepEqual(
    first.map(({ msg_id, read_ct, message }) => [msg_id, read_ct, message]),
    [
      ['1', 1, 'a'],
      ['2', 1, 'b'],
    ],
  )
  for (const { msg_id } of first) isAbout(await secondsFromNow(name, msg_id), 3600)
  assert.deepEqual(await values(`select vt from pgmq.q_${name} where msg_id = 1`), [first[0].vt])
  assert.deepEqual(await values(`select message from pgmq.read('${name}', 3600, 10)`), ['c'])
  assert.deepEqual(await rows(`select * from pgmq.read('${name}', 3600, 10)`), [])
  // A message that becomes visible again is read before newer ones.
  await rows(`select pgmq.send('${name}', '"d"'), pgmq.set_vt('${name}', 2, 0)`)
  assert.deepEqual(await values(`select message from pgmq.read('${name}', 3600, 10)`), ['b', 'd'])
  assert.deepEqual(await rows(`select * from pgmq.read('${name}', 3600, 0)`), [])
  await assert.rejects(rows(`select * from pgmq.read('${name}', 3600, -1)`), { code: '2201W' })
})

test('pgmq: read with a condition returns messages that contain it', async () => {
  const name = await queue({ kind: 'x', n: 1 }, { kind: 'y', n: 2 }, { kind: 'x', n: 3 })
  assert.deepEqual(await values(`select msg_id from pgmq.read('${name}', 3600, 1, '{"kind":"y"}')`), ['2'])
  assert.deepEqual(
    await values(`select msg_id from pgmq.read('${name}', 0, 5, conditional => '{"kind":"x"}')`),
    ['1', '3'],
  )
  assert.deepEqual(await values(`select msg_id from pgmq.read('${name}', 0, 5, '{"kind":"z"}')`), [])
  assert.deepEqual(await values(`select msg_id from pgmq.read('${name}', 0, 5, '{}')`), ['1', '3'])
  assert.deepEqual(await values(`select msg_id from pgmq.read('${name}', 0, 5, null)`), ['1', '3'])
})

test('pgmq: a visibility timeout of 0 or less does not hide a message', async () => {
  const name = await queue('a')
  for (const [vt, count] of [
    [0, 1],
    [0, 2],
    [-10, 3],
    [3600, 4],
  ])
    assert.deepEqual(await values(`select read_ct from pgmq.read('${name}', ${vt}, 1)`), [count])
  assert.deepEqual(await rows(`select * from pgmq.read('${name}', 0, 1)`), [])
})

test('pgmq: a message can be read in the transaction that sent it', async () => {
  const name = await queue()
  await rows('begin')
  await rows('select now()')
  await rows(`select pgmq.send('${name}', '"a"')`)
  assert.deepEqual(await values(`select message from pgmq.read('${name}', 0, 1)`), ['a'])
  assert.equal(await value(`select queue_visible_length::int from pgmq.metrics('${name}')`), 1)
  await rows('commit')
})

test('pgmq: read_with_poll sees commits while it waits', async () => {
  const name = await queue()
  const sender = await project.connect()
  const waiting = rows(`select * from pgmq.read_with_poll('${name}', 3600, 1, 600, 20)`)
  await asleep(1)
  await sender.query(`select pgmq.send('${name}', '"late"')`)
  const [message] = await waiting
  assert.deepEqual([message.message, message.read_ct], ['late', 1])
  await sender.end()
})

test('pgmq: read_with_poll returns existing messages at once, times out, and supports conditions', async () => {
  const name = await queue({ a: 1 }, { b: 1 })
  assert.deepEqual(
    await values(`select msg_id from pgmq.read_with_poll('${name}', 3600, 5, 600, 100, '{"b":1}')`),
    ['2'],
  )
  assert.deepEqual(await values(`select msg_id from pgmq.read_with_poll('${name}', 3600, 5)`), ['1'])
  assert.deepEqual(await rows(`select * from pgmq.read_with_poll('${name}', 3600, 5, 1, 60000)`), [])
  assert.deepEqual(await rows(`select * from pgmq.read_with_poll('${name}', 3600, 5, 0)`), [])
})

test('pgmq: pop returns and deletes the oldest visible message without counting a read', async () => {
  const name = await queue('a', 'b')
  await rows(`select pgmq.read('${name}', 3600, 1)`)
  const [popped] = await rows(`select * from pgmq.pop('${name}')`)
  assert.deepEqual([popped.msg_id, popped.read_ct, popped.message], ['2', 0, 'b'])
  assert.deepEqual(await rows(`select * from pgmq.pop('${name}')`), [])
  assert.deepEqual(await values(`select msg_id from pgmq.q_${name}`), ['1'])
})

test('pgmq: delete returns what it deleted, including hidden messages', async () => {
  const name = await queue('a', 'b', 'c')
  await rows(`select pgmq.read('${name}', 3600, 1)`)
  assert.deepEqual(await rows(`select * from pgmq.delete('${name}', 1)`), [{ delete: true }])
  assert.deepEqual(await rows(`select * from pgmq.delete('${name}', 1)`), [{ delete: false }])
  assert.deepEqual(await rows(`select * from pgmq.delete('${name}', array[1, 3, 3]::bigint[])`), [
    { delete: '3' },
  ])
  assert.deepEqual(await rows(`select * from pgmq.delete('${name}', array[]::bigint[])`), [])
  assert.deepEqual(await values(`select msg_id from pgmq.q_${name}`), ['2'])
})

test('pgmq: archive moves a message unchanged, even a hidden one', async () => {
  const name = await queue('a', 'b', 'c')
  await rows(`select pgmq.send('${name}', '"d"', '{"h":1}', 3600)`)
  const [read] = await rows(`select * from pgmq.read('${name}', 3600, 1)`)
  assert.deepEqual(await rows(`select * from pgmq.archive('${name}', 1)`), [{ archive: true }])
  assert.deepEqual(await rows(`select * from pgmq.archive('${name}', 1)`), [{ archive: false }])
  const moved = await values(`select * from pgmq.archive('${name}', array[2, 4, 99]::bigint[])`)
  assert.deepEqual(moved.toSorted(), ['2', '4'])
  const archived = await rows(`select * from pgmq.a_${name} order by msg_id`)
  assert.deepEqual(Object.keys(archived[0]), [
    'msg_id',
    'read_ct',
    'enqueued_at',
    'archived_at',
    'vt',
    'message',
    'headers',
  ])
  const { archived_at: _, ...kept } = archived[0]
  assert.deepEqual(kept, read)
  assert.deepEqual([archived[2].message, archived[2].headers], ['d', { h: 1 }])
  assert.deepEqual(await values(`select msg_id from pgmq.q_${name}`), ['3'])
})

test('pgmq: a message that cannot be archived stays in its queue', async () => {
  const name = await queue('a')
  await rows(`alter table pgmq.a_${name} add check (message <> '"a"')`)
  await assert.rejects(rows(`select pgmq.archive('${name}', 1)`), { code: '23514' })
  assert.deepEqual(await values(`select msg_id from pgmq.q_${name}`), ['1'])
})

test('pgmq: set_vt moves the deadline in both directions and returns the message', async () => {
  const name = await queue('a')
  const [hidden] = await rows(`select * from pgmq.set_vt('${name}', 1, 3600)`)
  assert.deepEqual([hidden.msg_id, hidden.read_ct, hidden.message], ['1', 0, 'a'])
  isAbout(await secondsFromNow(name, '1'), 3600)
  assert.deepEqual(await rows(`select * from pgmq.read('${name}', 0, 1)`), [])
  await rows(`select pgmq.set_vt('${name}', 1, 0)`)
  assert.deepEqual(await values(`select read_ct from pgmq.read('${name}', 0, 1)`), [1])
  assert.deepEqual(await rows(`select * from pgmq.set_vt('${name}', 99, 0)`), [])
})

test('pgmq: purge returns the count, keeps the archive, and does not reset ids', async () => {
  const name = await queue('a', 'b', 'c')
  await rows(`select pgmq.archive('${name}', 1)`)
  assert.deepEqual(await rows(`select * from pgmq.purge_queue('${name}')`), [{ purge_queue: '2' }])
  assert.equal(await value(`select pgmq.purge_queue('${name}')`), '0')
  assert.equal(await value(`select count(*)::int from pgmq.a_${name}`), 1)
  assert.equal(await value(`select pgmq.send('${name}', '1')`), '4')
})

test('pgmq: metrics of an unused, a used and an emptied queue', async () => {
  const name = await queue()
  const metrics = async () => {
    const [{ scrape_time, ...figures }] = (await rows(`select * from pgmq.metrics('${name}')`)) as any
    assert.ok(scrape_time instanceof Date)
    return figures
  }
  const unused = {
    queue_name: name,
    queue_length: '0',
    newest_msg_age_sec: null,
    oldest_msg_age_sec: null,
    total_messages: '0',
    queue_visible_length: '0',
  }
  assert.deepEqual(await metrics(), unused)
  await rows(`select pgmq.send_batch('${name}', array['1', '2', '3', '4']::jsonb[])`)
  await rows(`select pgmq.send('${name}', '5', 3600)`)
  await rows(`update pgmq.q_${name} set enqueued_at = now() - interval '1 hour' where msg_id = 1`)
  await rows(`update pgmq.q_${name} set enqueued_at = now() - interval '1 minute' where msg_id > 1`)
  await rows(`select pgmq.archive('${name}', 4), pgmq.read('${name}', 3600, 1)`)
  const { newest_msg_age_sec: newest, oldest_msg_age_sec: oldest, ...counts } = await metrics()
  assert.ok(newest >= 60 && newest < 600 && oldest >= 3600 && oldest < 4200, `${newest} ${oldest}`)
  assert.deepEqual(counts, {
    queue_name: name,
    queue_length: '4',
    total_messages: '5',
    queue_visible_length: '2',
  })
  await rows(`select pgmq.purge_queue('${name}')`)
  assert.deepEqual(await metrics(), { ...unused, total_messages: '5' })
})

test('pgmq: metrics_all has a row for each listed queue', async () => {
  const listed = await values('select queue_name from pgmq.list_queues()')
  assert.ok(listed.length > 5)
  assert.deepEqual(await values('select queue_name from pgmq.metrics_all()'), listed)
})

test('pgmq: every function raises undefined_table for a missing queue', async () => {
  for (const call of [
    `send('none', '{}')`,
    `send_batch('none', array['{}']::jsonb[])`,
    `read('none', 0, 1)`,
    `read_with_poll('none', 0, 1)`,
    `pop('none')`,
    `delete('none', 1)`,
    `delete('none', array[1]::bigint[])`,
    `archive('none', 1)`,
    `archive('none', array[1]::bigint[])`,
    `set_vt('none', 1, 0)`,
    `purge_queue('none')`,
    `detach_archive('none')`,
    `metrics('none')`,
  ])
    await assert.rejects(rows(`select pgmq.${call}`), { code: '42P01' }, call)
})
