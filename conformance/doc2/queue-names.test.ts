// 2 §2 and §8: a queue name is `[a-z_][a-z0-9_]*`, at most 47 characters.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createQueue, idsOf, queuesProject } from '../queue.ts'
import { bodyOf, type ServiceApi } from '../service.ts'
import { type Target, target } from '../target.ts'
import { assertDataError } from '../wire.ts'

let it: Target
before(async () => {
  it = await target()
})
after(() => it.stop())

const listed = async (queues: ServiceApi) =>
  bodyOf(await queues.get('queues'))
    .map(({ queue_name }: any) => queue_name)
    .toSorted()

/** Sends, reads, archives, replays and acknowledges. */
async function assertWorks(queues: ServiceApi, name: string): Promise<void> {
  const queue = await createQueue(queues, name)
  const id = await queue.send(name)
  const [read] = await queue.read(1000)
  assert.deepEqual([read!.msg_id, read!.message], [id, name])
  assert.equal(await queue.archive(id), true)
  assert.deepEqual(idsOf(await queue.archived()), [id])
  await queue.replay(id)
  assert.equal(await queue.ack(id), true)
  assert.partialDeepStrictEqual(await queue.metrics(), { queue_name: name, queue_length: 0 })
}

const good = [
  'a',
  '_',
  '__',
  'z9',
  '_9',
  'q_a',
  'a_a',
  'meta',
  'select',
  'table',
  'user',
  'null',
  'pgmq',
  `a${'b'.repeat(46)}`,
  `_${'9'.repeat(46)}`,
  `a${'b'.repeat(45)}c`,
]

test('2 §8 every name that matches the pattern is valid, including SQL keywords and names of 47 characters', async () => {
  const queues = await queuesProject(it)
  for (const name of good) await assertWorks(queues, name)
  assert.deepEqual(await listed(queues), good.toSorted())
  for (const name of good) assert.equal((await queues.delete(`queues/${name}`)).status, 204, name)
  assert.deepEqual(await listed(queues), [])
})

/** Names of objects that Postgres may create beside the tables of queue `x`. */
const neighbours = ['x', 'x_msg_id_seq', 'x_pkey', 'x_vt_idx', 'x_archived_at_idx', 'a_x', 'q_x']

for (const [order, names] of [
  ['after it', neighbours],
  ['before it', neighbours.toReversed()],
] as const)
  test(`2 §8 names that look like parts of another queue, created ${order}, are valid or rejected as taken`, async () => {
    const queues = await queuesProject(it)
    const made: string[] = []
    for (const name of names) {
      const reply = await queues.post('queues', { name })
      assert.ok([201, 409].includes(reply.status), `${name}: ${reply.status} ${reply.text}`)
      if (reply.status === 409) continue
      made.push(name)
      await assertWorks(queues, name)
    }
    assert.equal(made[0], names[0])
    assert.deepEqual(await listed(queues), made.toSorted())
    // Dropping one queue must not affect the others.
    for (const [place, name] of made.entries()) {
      assert.equal((await queues.delete(`queues/${name}`)).status, 204, name)
      assert.deepEqual(await listed(queues), made.slice(place + 1).toSorted())
      for (const left of made.slice(place + 1)) {
        const { total_messages } = bodyOf(await queues.get(`queues/${left}/metrics`))
        assert.equal(total_messages, 1, left)
      }
    }
  })

const bad = [
  '',
  'A',
  'aB',
  '1a',
  '9',
  '-a',
  'a-b',
  'a b',
  ' a',
  'a ',
  'a\n',
  'a\0',
  'a.b',
  'a/b',
  'a$',
  "a'b",
  'a"b',
  'a;b',
  'a--',
  '*',
  '%',
  'ä',
  'ａ',
  'ı',
  '😀',
  'a'.repeat(48),
  'a'.repeat(3000),
  "x'; drop schema pgmq cascade; --",
]

test('2 §8 every other name is 400, in a body and in a path', async () => {
  const queues = await queuesProject(it)
  for (const name of bad) {
    const reply = await queues.post('queues', { name })
    assert.equal(reply.status, 400, `${JSON.stringify(name)}: ${reply.status} ${reply.text}`)
    assertDataError(reply, 'invalid_request')
    if (name === '' || name.length > 2000) continue
    for (const [method, operation, body] of [
      ['DELETE', ''],
      ['POST', '/send', { message: 1 }],
      ['POST', '/read', { vt: 0 }],
      ['POST', '/pop'],
      ['GET', '/archived'],
      ['GET', '/metrics'],
    ] as const) {
      const inPath = await queues.ask(method, `queues/${encodeURIComponent(name)}${operation}`, body)
      assert.equal(inPath.status, 400, `${method} ${JSON.stringify(name)}${operation}: ${inPath.status}`)
    }
  }
  assert.deepEqual(await listed(queues), [])
})
