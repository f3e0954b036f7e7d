// Queues that start with many unreadable rows: delayed messages and dead rows. Here every read searches the head of the
// queue first. Reads over HTTP do so only for queues where it is worthwhile.
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { after, before, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RawRequest } from '#src/kernel/http/request.ts'
import { createHeadCache, margin } from '#src/services/queue/head-cache.ts'
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
    createHeadCache({ readMs: 0, findMs: 0, pauseMs: 100, advanceMs: 30 }),
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
/** Enough delayed messages to be skipped by the head cache, hidden until tomorrow. */
const fill = (count = margin * 2) =>
  asOwner(
    `insert into pgmq.q_${name} (vt, message) select now() + interval '1 day', '0' from generate_series(1, ${count})`,
  )
/** Reads until the head is cached. */
async function cacheHead(): Promise<void> {
  await read()
  await sleep(150)
  await read()
  await sleep(50)
}

test('queues: a message behind thousands of delayed ones is read', async () => {
  await fill()
  await cacheHead()
  const id = await send('now')
  assert.deepEqual(
    (await read()).map(each => each.msg_id),
    [id],
  )
  assert.deepEqual(await read(), [])
})

test('queues: a delayed message is read in order when it is due', async () => {
  // Due only after the other messages have been checked, even on a slow machine.
  const first = await send('first', 4)
  await fill()
  await cacheHead()
  const second = await send('second', 1)
  await sleep(4100)
  assert.deepEqual(
    (await read(10)).map(each => each.msg_id),
    [first, second],
  )
})

test('queues: a message is read again after its visibility timeout, even below the cached head', async () => {
  const id = await send('again')
  await fill()
  await cacheHead()
  const [again] = await read(1, 1)
  assert.equal(again, undefined, 'an earlier read has returned it')
  await asOwner(`update pgmq.q_${name} set vt = clock_timestamp() + interval '1 second' where msg_id = ${id}`)
  for (let tries = 0; ; tries++) {
    const [found] = await read()
    if (found) {
      assert.equal(found.msg_id, id)
      break
    }
    assert.ok(tries < 300, 'the message is visible again')
    await sleep(50)
  }
})

test('queues: a replayed message is read at once', async () => {
  const id = await send('old')
  await fill()
  await queues.archive(caller, name, body({ msg_id: id }))
  await cacheHead()
  await queues.replay(caller, name, id)
  assert.deepEqual(
    (await read()).map(each => each.msg_id),
    [id],
  )
})

test('queues: a late commit is read after the next search of the head', async () => {
  const ref = await platform.refOf(caller.tenant.id)
  await platform.asSuperuser(ref, async session => {
    await session.script(`begin; insert into pgmq.q_${name} (vt, message) values (now(), '"late"')`)
    await fill(margin * 3)
    await cacheHead()
    await session.script('commit')
  })
  for (let tries = 0; ; tries++) {
    const [found] = await read()
    if (found) {
      assert.equal(found.message, 'late')
      break
    }
    assert.ok(tries < 300, 'the message is found')
    await sleep(50)
  }
})

test('queues: pop finds messages behind delayed ones', async () => {
  await fill()
  await cacheHead()
  const id = await send('pop me')
  assert.equal(JSON.parse(String((await queues.pop(caller, name)).body)).msg_id, id)
  assert.equal(String((await queues.pop(caller, name)).body), 'null')
})
