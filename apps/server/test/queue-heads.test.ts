// Queues with much that cannot be read in front: messages that are delayed, and dead rows. Every read here looks for the
// head of the queue first, which reads over HTTP do only where that pays.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { after, before, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RawRequest } from '#src/kernel/http/request.ts'
import { createHeads, margin } from '#src/services/queue/heads.ts'
import { type QueueService, queueService } from '#src/services/queue/service.ts'
import type { Caller } from '#src/tenancy/databases.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let caller: Caller
let queues: QueueService
let number = 0
let name: string

before(async () => {
  platform = await startPlatform()
  const { id } = await platform.createProject()
  const tenant = (await platform.app.directory.find(id))!
  caller = { tenant, role: 'service_role', claims: '{"role":"service_role"}', userId: '', sessionId: '' }
})
after(() => platform.stop())
beforeEach(async () => {
  queues = queueService(
    platform.app.databases,
    createHeads({ readMs: 0, lookMs: 0, pauseMs: 100, moveOnMs: 30 }),
  )
  name = `q${++number}`
  await queues.create(caller, name)
})

function body(value: unknown): RawRequest {
  const bytes = Buffer.from(JSON.stringify(value))
  return {
    headers: { 'content-length': String(bytes.length) },
    body: Readable.from([bytes]),
  } as unknown as RawRequest
}
const send = async (message: unknown, delay = 0): Promise<number> =>
  JSON.parse(String((await queues.send(caller, name, body({ message, delay }))).body)).msg_id
const read = async (qty = 1, vt = 600): Promise<{ msg_id: number; message: unknown }[]> =>
  JSON.parse(String((await queues.read(caller, name, body({ vt, qty }))).body))
const asOwner = (text: string) =>
  platform.app.databases.asOwner(caller.tenant, session => session.script(text))
/** Enough to be passed over, hidden until tomorrow. */
const fill = (count = margin * 2) =>
  asOwner(
    `insert into pgmq.q_${name} (vt, message) select now() + interval '1 day', '0' from generate_series(1, ${count})`,
  )
/** What reads use by then. */
async function lookedUp(): Promise<void> {
  await read()
  await sleep(150)
  await read()
  await sleep(50)
}

test('a message behind thousands of delayed ones is read', async () => {
  await fill()
  await lookedUp()
  const id = await send('now')
  assert.deepEqual(
    (await read()).map(each => each.msg_id),
    [id],
  )
  assert.deepEqual(await read(), [])
})

test('a delayed message is read in its turn once it is due', async () => {
  // Not due yet when the others are looked at, however long that takes.
  const first = await send('first', 4)
  await fill()
  await lookedUp()
  const second = await send('second', 1)
  await sleep(4100)
  assert.deepEqual(
    (await read(10)).map(each => each.msg_id),
    [first, second],
  )
})

test('a message whose time to be hidden is over is read again, whatever was passed over meanwhile', async () => {
  const id = await send('again')
  await fill()
  await lookedUp()
  const [again] = await read(1, 1)
  assert.equal(again, undefined, 'the first looks have read it')
  await asOwner(`update pgmq.q_${name} set vt = clock_timestamp() + interval '1 second' where msg_id = ${id}`)
  for (let tries = 0; ; tries++) {
    const [found] = await read()
    if (found) {
      assert.equal(found.msg_id, id)
      break
    }
    assert.ok(tries < 300, 'it should have come back')
    await sleep(50)
  }
})

test('a replayed message is read at once', async () => {
  const id = await send('old')
  await fill()
  await queues.archive(caller, name, body({ msg_id: id }))
  await lookedUp()
  await queues.replay(caller, name, id)
  assert.deepEqual(
    (await read()).map(each => each.msg_id),
    [id],
  )
})

test('a message committed late is read as soon as the head is looked up again', async () => {
  const ref = await platform.refOf(caller.tenant.id)
  await platform.asSuperuser(ref, async session => {
    await session.script(`begin; insert into pgmq.q_${name} (vt, message) values (now(), '"late"')`)
    await fill(margin * 3)
    await lookedUp()
    await session.script('commit')
  })
  for (let tries = 0; ; tries++) {
    const [found] = await read()
    if (found) {
      assert.equal(found.message, 'late')
      break
    }
    assert.ok(tries < 300, 'it should have been found')
    await sleep(50)
  }
})

test('what is popped is found behind delayed messages, too', async () => {
  await fill()
  await lookedUp()
  const id = await send('pop me')
  assert.equal(JSON.parse(String((await queues.pop(caller, name)).body)).msg_id, id)
  assert.equal(String((await queues.pop(caller, name)).body), 'null')
})
