// client.queues against a real platform.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { granted, refused, type Stage, setStage } from './stage.ts'

let stage: Stage
before(async () => {
  stage = await setStage()
})
after(() => stage.stop())
const queues = () => stage.service.queues

let created = 0
/** Creates a queue for one test. */
async function createQueue(): Promise<string> {
  return granted(await queues().create(`q${++created}`)).queue_name
}

describe('queues', () => {
  test('are created, listed and dropped', async () => {
    const queue = granted(await queues().create('mail'))
    assert.partialDeepStrictEqual(queue, { queue_name: 'mail', is_partitioned: false, is_unlogged: false })
    assert.deepEqual(Object.keys(queue).sort(), ['created_at', 'is_partitioned', 'is_unlogged', 'queue_name'])
    assert.deepEqual(granted(await queues().list()), [queue])
    assert.deepEqual(granted(await queues().create('mail')), queue, 'an existing queue is returned')
    assert.equal(granted(await queues().drop('mail')), null)
    assert.deepEqual(granted(await queues().list()), [])
  })
})

describe('send and read', () => {
  test('read returns the sent messages, which may be any JSON value', async () => {
    const queue = await createQueue()
    const messages = [{ to: 'ada', nested: [1, { ok: true }] }, ['a'], 'text ☀️', 42.5, false, null]
    for (const [index, message] of messages.entries())
      assert.equal(granted(await queues().send(queue, message)), index + 1)
    const read = granted(await queues().read(queue, { vt: 60, qty: 10 }))
    assert.deepEqual(
      read.map(({ message }) => message),
      messages,
    )
    assert.deepEqual(
      read.map(({ msg_id, read_ct, headers }) => [msg_id, read_ct, headers]),
      messages.map((_, index) => [index + 1, 1, null]),
    )
    assert.ok(Date.parse(read[0]!.vt) > Date.parse(read[0]!.enqueued_at))
    assert.deepEqual(granted(await queues().read(queue, { vt: 60 })), [], 'hidden')
  })

  test('the caller declares the type of a message', async () => {
    const queue = await createQueue()
    interface Mail {
      to: string
    }
    granted(await queues().send<Mail>(queue, { to: 'ada' }))
    const [read] = granted(await queues().read<Mail>(queue, { vt: 0 }))
    const to: string = read!.message.to
    assert.equal(to, 'ada')
    const popped = granted(await queues().pop<Mail>(queue))
    assert.equal(popped?.message.to, 'ada')
  })

  test('read returns the oldest message by default, and vt 0 hides nothing', async () => {
    const queue = await createQueue()
    granted(await queues().sendBatch(queue, ['a', 'b', 'c']))
    for (const times of [1, 2]) {
      const read = granted(await queues().read(queue, { vt: 0 }))
      assert.deepEqual(
        read.map(({ message, read_ct }) => [message, read_ct]),
        [['a', times]],
      )
    }
    assert.equal(granted(await queues().read(queue, { vt: 60, qty: 2 })).length, 2)
  })

  test('a message can have a delay and headers', async () => {
    const queue = await createQueue()
    granted(await queues().send(queue, 'later', { delay: 3600 }))
    assert.deepEqual(granted(await queues().read(queue, { vt: 60 })), [])
    granted(await queues().send(queue, 'soon', { delay: 1, headers: { trace: 'x', n: 1 } }))
    let [read] = granted(await queues().read(queue, { vt: 60 }))
    for (; !read; [read] = granted(await queues().read(queue, { vt: 60 }))) await sleep(20)
    assert.deepEqual([read.message, read.headers], ['soon', { trace: 'x', n: 1 }])
  })

  test('a batch keeps its order, its headers and its delay', async () => {
    const queue = await createQueue()
    const ids = granted(
      await queues().sendBatch(queue, [{ n: 1 }, { n: 2 }, null], { headers: [{ h: 1 }, null, { h: 3 }] }),
    )
    assert.deepEqual(ids, [1, 2, 3])
    const read = granted(await queues().read(queue, { vt: 60, qty: 3 }))
    assert.deepEqual(
      read.map(({ message, headers }) => [message, headers]),
      [
        [{ n: 1 }, { h: 1 }],
        [{ n: 2 }, null],
        [null, { h: 3 }],
      ],
    )
    granted(await queues().sendBatch(queue, ['a', 'b'], { delay: 3600 }))
    assert.equal(granted(await queues().pop(queue)), null)
    assert.deepEqual(granted(await queues().sendBatch(queue, [])), [])
  })

  test('pop returns and deletes the oldest message', async () => {
    const queue = await createQueue()
    granted(await queues().sendBatch(queue, ['a', 'b']))
    assert.partialDeepStrictEqual(granted(await queues().pop(queue)), { msg_id: 1, message: 'a', read_ct: 0 })
    assert.equal(granted(await queues().pop(queue))?.message, 'b')
    assert.deepEqual(await queues().pop(queue), { data: null, error: null })
  })
})

describe('ack, archive and replay', () => {
  test('ack deletes a message and returns whether it existed', async () => {
    const queue = await createQueue()
    const id = granted(await queues().send(queue, 'a'))
    const acked: boolean = granted(await queues().ack(queue, id))
    assert.equal(acked, true)
    assert.equal(granted(await queues().ack(queue, id)), false)
  })

  test('ack of several messages returns the ids that existed', async () => {
    const queue = await createQueue()
    granted(await queues().sendBatch(queue, ['a', 'b', 'c']))
    const acked: number[] = granted(await queues().ack(queue, [1, 3, 9]))
    assert.deepEqual(acked.toSorted(), [1, 3])
    assert.deepEqual(granted(await queues().ack(queue, [1, 9])), [])
    assert.equal(granted(await queues().pop(queue))?.message, 'b')
  })

  test('archive moves a message to the archive, archived lists the newest first, replay moves it back', async () => {
    const queue = await createQueue()
    granted(await queues().sendBatch(queue, ['a', 'b', 'c'], { headers: [{ h: 1 }, null, null] }))
    const archived: boolean = granted(await queues().archive(queue, 1))
    assert.equal(archived, true)
    assert.equal(granted(await queues().archive(queue, 1)), false)
    const several: number[] = granted(await queues().archive(queue, [2, 9]))
    assert.deepEqual(several, [2])

    const all = granted(await queues().archived<string>(queue))
    assert.deepEqual(
      all.map(({ msg_id, message, headers }) => [msg_id, message, headers]),
      [
        [2, 'b', null],
        [1, 'a', { h: 1 }],
      ],
    )
    assert.ok(all.every(({ archived_at, enqueued_at }) => Date.parse(archived_at) >= Date.parse(enqueued_at)))
    const ids = async (options: { limit?: number; offset?: number }) =>
      granted(await queues().archived(queue, options)).map(({ msg_id }) => msg_id)
    assert.deepEqual(await ids({ limit: 1 }), [2])
    assert.deepEqual(await ids({ limit: 1, offset: 1 }), [1])
    assert.deepEqual(await ids({ offset: 2 }), [])

    assert.equal(granted(await queues().replay(queue, 1)), 1)
    assert.deepEqual(await ids({}), [2])
    assert.partialDeepStrictEqual(granted(await queues().pop(queue)), { msg_id: 1, message: 'a' })
    refused(await queues().replay(queue, 1), 404, 'archived_message_not_found')
  })

  test('metrics returns lengths, ages and the total', async () => {
    const queue = await createQueue()
    assert.partialDeepStrictEqual(granted(await queues().metrics(queue)), {
      queue_name: queue,
      queue_length: 0,
      newest_msg_age_sec: null,
      total_messages: 0,
    })
    granted(await queues().sendBatch(queue, ['a', 'b', 'c']))
    granted(await queues().read(queue, { vt: 3600 }))
    granted(await queues().pop(queue))
    const metrics = granted(await queues().metrics(queue))
    assert.partialDeepStrictEqual(metrics, { queue_length: 2, queue_visible_length: 1, total_messages: 3 })
    assert.ok(metrics.oldest_msg_age_sec !== null && metrics.oldest_msg_age_sec >= 0)
  })
})

const callAll = (
  from: Stage['service']['queues'],
  queue: string,
  options: { signal?: AbortSignal } = {},
) => ({
  send: from.send(queue, 'x', options),
  sendBatch: from.sendBatch(queue, ['x'], options),
  read: from.read(queue, { vt: 1, ...options }),
  pop: from.pop(queue, options),
  ack: from.ack(queue, 1, options),
  'ack of several': from.ack(queue, [1], options),
  archive: from.archive(queue, 1, options),
  'archive of several': from.archive(queue, [1], options),
  archived: from.archived(queue, options),
  replay: from.replay(queue, 1, options),
  metrics: from.metrics(queue, options),
  drop: from.drop(queue, options),
})

describe('errors', () => {
  test('every method returns queue_not_found for an unknown queue', async () => {
    for (const [name, call] of Object.entries(callAll(queues(), 'unknown_queue'))) {
      const error = refused(await call, 404, 'queue_not_found')
      assert.ok(error.requestId, name)
    }
  })

  test('an invalid queue name is rejected', async () => {
    for (const name of ['Upper', '1st', 'a-b', 'x'.repeat(48), 'ä', 'a/b']) {
      refused(await queues().create(name), 400, 'invalid_request')
      refused(await queues().send(name, 'x'), 400, 'invalid_request')
    }
    for (const name of ['.', '..', ''])
      for (const call of Object.values(callAll(queues(), name))) refused(await call, 0, 'invalid_argument')
  })

  test('invalid arguments are rejected', async () => {
    const queue = await createQueue()
    refused(await queues().read(queue, { vt: -1 }), 400, 'invalid_request')
    refused(await queues().read(queue, { vt: 1, qty: 0 }), 400, 'invalid_request')
    refused(await queues().send(queue, 'x', { delay: -1 }), 400, 'invalid_request')
    refused(await queues().send(queue, undefined), 400, 'invalid_request')
    refused(await queues().ack(queue, 0), 400, 'invalid_request')
    const loop: { self?: unknown } = {}
    loop.self = loop
    refused(await queues().send(queue, loop), 0, 'invalid_argument')
    refused(await queues().sendBatch(queue, [1n]), 0, 'invalid_argument')
    assert.equal(granted(await queues().metrics(queue)).total_messages, 0)
  })

  test('every method rejects the anon key', async () => {
    const queue = await createQueue()
    const { queues: from } = stage.anon
    const calls = [from.create('x'), from.list(), ...Object.values(callAll(from, queue))]
    for (const call of calls) refused(await call, 403, 'role_not_allowed')
  })

  test('a call with an aborted signal sends no request', async () => {
    const queue = await createQueue()
    const signal = AbortSignal.abort()
    const calls = [
      queues().create('never', { signal }),
      queues().list({ signal }),
      ...Object.values(callAll(queues(), queue, { signal })),
    ]
    for (const call of calls) refused(await call, 0, 'request_aborted')
    assert.equal(granted(await queues().metrics(queue)).total_messages, 0)
  })
})
