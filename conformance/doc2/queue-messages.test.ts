// 2 §2 "Queue", §3, §4.3 and Queues contract §2, §3, §5: sending, reading, popping and acknowledging.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createQueue, idsOf, queuesProject } from '../queue.ts'
import { bodyOf, type ServiceApi } from '../service.ts'
import { type Target, target } from '../target.ts'

let it: Target
let queues: ServiceApi
before(async () => {
  it = await target()
  queues = await queuesProject(it)
})
after(() => it.stop())

const values = [
  null,
  true,
  false,
  0,
  -1.5,
  '',
  'text',
  'Grüße, 日本語, 😀',
  '\ufeff\u2028\u007f"\\/\n',
  [],
  [1, [2, [3]]],
  {},
  { order: 7, lines: [{ sku: 'a', n: 2 }], note: null },
  { '': 1, msg_id: 2, 'a b': 3, ключ: 4 },
]

test('2 §2 a message is any JSON value and is returned unchanged', async () => {
  const queue = await createQueue(queues)
  const one = await Promise.all(values.map(value => queue.send(value)))
  const batch = await queue.sendBatch(values)
  const read = await queue.read(1000, 100)
  const byId = new Map(read.map(each => [each.msg_id, each.message]))
  assert.equal(read.length, 2 * values.length)
  for (const [place, value] of values.entries()) {
    assert.deepEqual(byId.get(one[place]!), value)
    assert.deepEqual(byId.get(batch[place]!), value)
  }
  for (const value of values) {
    await queue.send(value)
    const popped = bodyOf(await queues.post(queue.at('pop')))
    assert.deepEqual(popped.message, value)
  }
})

test('2 §2 a read message has its id, read count, times and value', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send({ hello: 'world' })
  const [message] = await queue.read(1000)
  const { msg_id, read_ct, enqueued_at, vt, ...rest } = message!
  assert.deepEqual([msg_id, read_ct], [id, 1])
  assert.deepEqual(rest.message, { hello: 'world' })
  assert.equal(rest.headers ?? null, null)
  assert.ok(Math.abs(Date.parse(enqueued_at) - Date.now()) < 600_000, enqueued_at)
  assert.ok(Date.parse(vt) >= Date.parse(enqueued_at) + 1_000_000, vt)
})

test('Queues contract §5: numbers of any size are preserved', async () => {
  const queue = await createQueue(queues)
  for (const digits of ['12345678901234567890', '-0.1234567890123456789', '9007199254740993']) {
    bodyOf(await queues.post(queue.at('send'), `{"message":{"n":${digits}}}`))
    bodyOf(await queues.post(queue.at('send_batch'), `{"messages":[${digits}]}`))
    const read = await queues.post(queue.at('read'), { vt: 0, qty: 1 })
    assert.ok(read.text.includes(digits), read.text)
    const popped = [await queues.post(queue.at('pop')), await queues.post(queue.at('pop'))]
    for (const { text } of popped) assert.ok(text.includes(digits), text)
  }
})

test('Queues contract §3: ids start at 1, increase, and are never reused', async () => {
  const queue = await createQueue(queues)
  assert.deepEqual(bodyOf(await queues.post(queue.at('send'), { message: 'a' })), { msg_id: 1 })
  const batch = await queue.sendBatch(['b', 'c'])
  assert.deepEqual(
    batch,
    batch.toSorted((a, b) => a - b),
  )
  assert.ok(batch[0]! > 1)
  for (let i = 0; i < 3; i++) await queue.pop()
  assert.ok((await queue.send('d')) > batch[1]!)
})

test('2 §4.3 a batch keeps its order in ids and reads', async () => {
  const queue = await createQueue(queues)
  const words = Array.from({ length: 500 }, (_, place) => `word ${place}`)
  const ids = bodyOf(await queues.post(queue.at('send_batch'), { messages: words })).msg_ids
  assert.equal(new Set(ids).size, words.length)
  assert.deepEqual(
    ids,
    ids.toSorted((a: number, b: number) => a - b),
  )
  const read = await queue.read(1000, 500)
  assert.deepEqual(
    read.map(({ msg_id, message }) => [msg_id, message]),
    words.map((word, place) => [ids[place], word]),
  )
  assert.deepEqual(await queue.sendBatch([]), [])
})

test('2 §4.3 a batch is sent atomically', async () => {
  const queue = await createQueue(queues)
  // jsonb cannot hold NUL.
  for (const body of ['{"messages":["a","\\u0000"]}', '{"messages":["a","\\ud800"]}', '{"messages":["a",}'])
    assert.equal((await queues.post(queue.at('send_batch'), body)).status, 400, body)
  assert.deepEqual(await queue.read(0, 10), [])
})

test('2 §4.3 read returns the oldest visible messages, one by default', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(['a', 'b', 'c', 'd', 'e'])
  assert.deepEqual(bodyOf(await queues.post(queue.at('read'), { vt: 1000 })).length, 1)
  assert.deepEqual(idsOf(await queue.read(1000, 2)), ids.slice(1, 3))
  assert.deepEqual(idsOf(await queue.read(1000, 100)), ids.slice(3))
  const empty = await queues.post(queue.at('read'), { vt: 1000, qty: 5 })
  assert.deepEqual([empty.status, empty.body], [200, []])
})

test('2 §3 pop returns the oldest visible message and deletes it in one step, or returns null', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(['a', 'b'])
  const first = bodyOf(await queues.post(queue.at('pop')))
  assert.partialDeepStrictEqual(first, { msg_id: ids[0], message: 'a', read_ct: 0 })
  assert.equal(await queue.ack(ids[0]!), false)
  assert.deepEqual(await queue.archived(), [])
  assert.equal((await queue.pop())!.msg_id, ids[1])
  const none = await queues.post(queue.at('pop'))
  assert.deepEqual([none.status, none.text.trim()], [200, 'null'])
})

test('case 41: pop by 50 concurrent clients returns every message once', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(Array.from({ length: 200 }, (_, place) => place))
  const popped: number[] = []
  async function client() {
    for (let message = await queue.pop(); message; message = await queue.pop()) {
      popped.push(message.msg_id)
      assert.ok(popped.length <= ids.length, 'more was popped than sent')
    }
  }
  await Promise.all(Array.from({ length: 50 }, client))
  // A client that skipped a locked message may have finished before that message was the last one.
  await client()
  assert.deepEqual(
    popped.toSorted((a, b) => a - b),
    ids,
  )
})

test('2 §4.3 ack deletes a visible or hidden message; for an unknown id it returns false', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(['hidden', 'visible'])
  await queue.read(1000)
  for (const id of ids) {
    assert.partialDeepStrictEqual(bodyOf(await queues.post(queue.at('ack'), { msg_id: id })), { acked: true })
    assert.equal(await queue.ack(id), false)
  }
  assert.equal(await queue.ack(1_000_000), false)
  assert.equal((await queue.metrics()).queue_length, 0)
  assert.deepEqual(await queue.archived(), [])
})

test('Queues contract §2: one call acknowledges several messages', async () => {
  const queue = await createQueue(queues)
  const ids = await queue.sendBatch(['a', 'b', 'c'])
  const reply = bodyOf(await queues.post(queue.at('ack'), { msg_ids: [ids[2], 1_000_000, ids[0]] }))
  assert.deepEqual(reply.msg_ids.toSorted(), [ids[0], ids[2]])
  assert.deepEqual(idsOf(await queue.read(0, 10)), [ids[1]])
})

test('Queues contract §5: headers are returned with a message', async () => {
  const queue = await createQueue(queues)
  await queue.send('one', { headers: { trace: 'abc', n: 1 } })
  await queue.sendBatch(['two', 'three'], { headers: [{ trace: 'two' }, null] })
  assert.deepEqual(
    (await queue.read(0, 3)).map(({ headers }) => headers ?? null),
    [{ trace: 'abc', n: 1 }, { trace: 'two' }, null],
  )
})

test('2 §4.3 an invalid body is 400 and has no effect', async () => {
  const queue = await createQueue(queues)
  const id = await queue.send('kept')
  for (const [operation, body] of [
    ['send', {}],
    ['send', '5'],
    ['send', '{"message":'],
    ['send', '{"message":"\\u0000"}'],
    ['send', '{"message":{"\\u0000":1}}'],
    ['send', '{"message":"\\udc00"}'],
    ['send', { message: 'x', delay: -1 }],
    ['send', { message: 'x', delay: 1.5 }],
    ['send', { message: 'x', delay: '5' }],
    ['send', { message: 'x', delay: 1e18 }],
    ['send_batch', {}],
    ['send_batch', { messages: 'x' }],
    ['send_batch', { messages: ['x'], delay: -1 }],
    ['read', {}],
    ['read', { vt: -1 }],
    ['read', { vt: 1.5 }],
    ['read', { vt: '5' }],
    ['read', { vt: 1e18 }],
    ['read', { vt: 5, qty: 0 }],
    ['read', { vt: 5, qty: -1 }],
    ['read', { vt: 5, qty: '1' }],
    ['ack', {}],
    ['ack', { msg_id: 'x' }],
    ['ack', { msg_id: 1.5 }],
    ['ack', { msg_id: null }],
    ['ack', { msg_id: id, msg_ids: [id] }],
    ['archive', {}],
    ['archive', { msg_id: String(id) }],
    ['replay', {}],
    ['replay', { msg_id: 'x' }],
  ] as const) {
    const reply = await queues.post(queue.at(operation), body)
    assert.equal(reply.status, 400, `${operation} ${JSON.stringify(body)}: ${reply.status} ${reply.text}`)
  }
  const left = await queue.read(0, 10)
  assert.deepEqual([idsOf(left), left[0]!.read_ct], [[id], 1])
})

test('2 §8 large messages are accepted', async () => {
  const queue = await createQueue(queues)
  const text = 'ä'.repeat(100_000)
  await queue.send({ text })
  assert.equal((await queue.read(0))[0]!.message.text, text)
  assert.equal((await queue.pop())!.message.text, text)
})
