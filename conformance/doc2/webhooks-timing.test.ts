// 2 §8, `faults-and-attacks.md` 28 and the issue: back-off, timeouts, concurrency and receivers that misbehave.
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { freshTarget, type Settings, type Target } from '../target.ts'
import { until } from '../until.ts'
import {
  type Answering,
  answering,
  localReceivers,
  type Receiver,
  startReceiver,
  type WebhooksApi,
  webhooksProject,
} from '../webhooks.ts'

interface Setting {
  project: WebhooksApi
  receiver: Receiver
  /** The id of a webhook that gets user.created. */
  id: string
}

async function prepareOn(it: Target, t: TestContext, answer?: Answering): Promise<Setting> {
  const receiver = await startReceiver(answer)
  t.after(receiver.close)
  const project = await webhooksProject(it)
  const { id } = await project.create(receiver.url, ['user.created'])
  return { project, receiver, id }
}

/** On a platform with other settings. */
async function prepare(t: TestContext, settings: Settings, answer?: Answering): Promise<Setting> {
  const it = await freshTarget({ ...localReceivers, ...settings })
  t.after(() => it.stop())
  return prepareOn(it, t, answer)
}

test('2 §8 the pause after a failed attempt doubles each time', async t => {
  const settings = { WEBHOOK_RETRY_BASE_DELAY: '200ms', WEBHOOK_MAX_RETRIES: '4' }
  const { project, receiver, id } = await prepare(t, settings, answering(500))
  await project.createUser()
  const [dead] = await project.ended(id, 'dead_letter')
  assert.equal(dead.attempt_count, 4)
  const times = receiver.received.map(({ at }) => at)
  assert.equal(times.length, 4)
  // Jitter may shorten a pause, by at most half. A slow machine only makes it longer.
  for (const [place, least] of [100, 200, 400].entries()) {
    const pause = times[place + 1]! - times[place]!
    assert.ok(pause >= least, `pause ${place + 1} took ${pause} ms`)
  }
})

test('2 §8 by default the first retry follows after ten seconds', async t => {
  const { project, receiver, id } = await prepare(t, { WEBHOOK_RETRY_BASE_DELAY: '10s' }, answering(500))
  await project.createUser()
  await receiver.until(1)
  const pending = await until('the failed attempt is recorded', async () =>
    (await project.deliveries(id, '&status=pending')).find(each => each.attempt_count === 1),
  )
  assert.equal(pending.last_status_code, 500)
  const pause = Date.parse(pending.next_attempt_at) - Date.parse(pending.attempts[0].at)
  assert.ok(pause >= 5_000 && pause < 60_000, `${pause} ms`)
  assert.equal((await project.delivery(id, pending.id)).payload, receiver.received[0]!.raw)
})

test('2 §4.6 switching a webhook off or deleting it ends its retries', async t => {
  const { project, receiver, id } = await prepare(t, { WEBHOOK_RETRY_BASE_DELAY: '60m' }, answering(500))
  await project.createUser()
  await receiver.until(1)
  await until('the failed attempt is recorded', async () =>
    (await project.deliveries(id, '&status=pending')).some(each => each.attempt_count === 1),
  )
  await project.update(id, { is_active: false })
  assert.deepEqual(await project.deliveries(id, '&status=pending'), [])
  await project.hooks('DELETE', `/${id}`)
  assert.equal(receiver.received.length, 1)
})

test('2 §8 at most WEBHOOK_MAX_CONCURRENT deliveries are in flight', async t => {
  let [inFlight, most] = [0, 0]
  const slowly = (response: ServerResponse) => {
    most = Math.max(most, ++inFlight)
    setTimeout(() => {
      inFlight--
      response.end()
    }, 30)
  }
  const { project, receiver, id } = await prepare(t, { WEBHOOK_MAX_CONCURRENT: '2' }, slowly)
  await project.create(receiver.url, ['user.created'])
  await Promise.all(Array.from({ length: 10 }, () => project.createUser()))
  await receiver.until(20)
  await project.ended(id, 'delivered', 10)
  assert.ok(most <= 2, `${most} at once`)
})

/** With a short timeout, for receivers that do not answer. */
let impatient: Target
before(async () => {
  impatient = await freshTarget({
    ...localReceivers,
    WEBHOOK_TIMEOUT: '500ms',
    WEBHOOK_MAX_RETRIES: '2',
  })
})
after(() => impatient.stop())

const forever = (write: (response: ServerResponse) => void) => (response: ServerResponse) => {
  write(response)
  const timer = setInterval(() => write(response), 20)
  response.on('close', () => clearInterval(timer))
}

const withoutAnswer: [string, Answering][] = [
  ['never answers', () => {}],
  ['stops within the header', response => void response.socket!.write('HTTP/1.1 200 OK\r\nx-slow: ')],
  ['closes the connection within the header', response => void response.socket!.end('HTTP/1.1 200 OK\r\nx-')],
  ['is no HTTP', response => void response.socket!.end('220 mail.example.test ESMTP\r\n')],
  ['closes the connection', response => void response.socket!.destroy()],
]

for (const [what, answer] of withoutAnswer)
  test(`Case 28: a receiver that ${what} is retried, then a dead letter`, async t => {
    const { project, receiver, id } = await prepareOn(impatient, t, answer)
    await project.createUser()
    const [dead] = await project.ended(id, 'dead_letter')
    assert.equal(dead.attempt_count, 2)
    assert.equal(receiver.received.length, 2)
    for (const attempt of dead.attempts) {
      assert.equal(attempt.status_code, null)
      assert.match(attempt.error, /\w/)
    }
  })

test('Case 28: the attempt to a receiver whose answer does not end, ends', async t => {
  const block = 'x'.repeat(16_384)
  const { project, id } = await prepareOn(
    impatient,
    t,
    forever(response => {
      if (!response.headersSent) response.writeHead(500)
      response.write(block)
    }),
  )
  await project.createUser()
  const [dead] = await project.ended(id, 'dead_letter')
  assert.equal(dead.attempt_count, 2)
  for (const attempt of dead.attempts) assert.ok((attempt.response_body ?? '').length <= 1024)
})

test('Case 28: a compressed answer is not expanded', async t => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024))
  const { project, id } = await prepare(t, {}, response =>
    response.writeHead(500, { 'content-encoding': 'gzip', 'content-length': bomb.length }).end(bomb),
  )
  await project.createUser()
  const [dead] = await project.ended(id, 'dead_letter')
  assert.equal(dead.attempt_count, 5)
  for (const { status_code, response_body } of dead.attempts) {
    assert.equal(status_code, 500)
    assert.ok((response_body ?? '').length <= 1024)
  }
})

test('Issue: an endpoint that never answers delays no other endpoint', async t => {
  const silent: Answering = (response, _, { path }) => void (path.startsWith('/hook') && response.end())
  const { project, receiver, id } = await prepare(t, { WEBHOOK_TIMEOUT: '60m' }, silent)
  await project.create(receiver.url.replace('/hook', '/silent'), ['user.created'])
  await Promise.all(Array.from({ length: 30 }, () => project.createUser()))
  await project.ended(id, 'delivered', 30)
})
