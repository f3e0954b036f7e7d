// Channels of a real Redis: unchanged bytes, order, and recovery after Redis restarts, freezes or closes connections.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, afterEach, before, test } from 'node:test'
import { parseRedisUrl, type RedisAddress } from '#src/kernel/redis/address.ts'
import { openPublisher, PublishBacklogFull, type Publisher } from '#src/kernel/redis/publisher.ts'
import { RedisError } from '#src/kernel/redis/redis-error.ts'
import { openSubscription, type Subscription } from '#src/kernel/redis/subscription.ts'
import { eventually } from '#test/eventually.ts'
import { type RedisServer, startRedis } from '#test/redis-server.ts'

let redis: RedisServer
before(async () => {
  redis = await startRedis()
})
const undo: (() => unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})
after(() => redis?.stop())

const address = () => parseRedisUrl(redis.url)
const patience = { connectMs: 1000, lookMs: 200, firstPauseMs: 20, longestPauseMs: 200 }

interface Listening {
  subscription: Subscription
  messages: [channel: string, message: Buffer][]
  subscribed: string[]
  lost: unknown[]
}

function subscribeTo(channels: string[], at: RedisAddress = address()): Listening {
  const found: Omit<Listening, 'subscription'> = { messages: [], subscribed: [], lost: [] }
  const subscription = openSubscription(
    at,
    {
      message: (channel, message) => void found.messages.push([channel, message]),
      subscribed: channel => void found.subscribed.push(channel),
      lost: reason => void found.lost.push(reason),
    },
    patience,
  )
  undo.push(() => subscription.close())
  for (const channel of channels) subscription.add(channel)
  return { ...found, subscription }
}

interface Speaking {
  publisher: Publisher
  lost: unknown[]
  back(): number
}

function speak(maxBytes?: number, onBack = () => {}): Speaking {
  const lost: unknown[] = []
  let back = 0
  const publisher = openPublisher(
    address(),
    {
      lost: reason => void lost.push(reason),
      back() {
        back++
        onBack()
      },
    },
    maxBytes,
  )
  undo.push(() => publisher.close())
  return { publisher, lost, back: () => back }
}

const count = (what: string, list: readonly unknown[], expected: number) =>
  eventually(() => list.length >= expected, `${what}: ${expected}, not ${list.length}`)

test('redis pub/sub: messages arrive unchanged and in order, on their channel only', async () => {
  const here = subscribeTo(['one', 'zwei 日\r\n'])
  const { publisher } = speak()
  await count('channels', here.subscribed, 2)
  const sent = [0, 1, 5, 70_000, 3_000_000].map(length => randomBytes(length))
  publisher.publish('three', Buffer.from('for nobody'))
  for (const message of sent)
    for (const channel of ['one', 'zwei 日\r\n']) publisher.publish(channel, message)
  await count('messages', here.messages, 10)
  const expected = sent.flatMap(message => [
    ['one', message],
    ['zwei 日\r\n', message],
  ])
  assert.ok(
    here.messages.every(
      ([channel, message], at) => channel === expected[at]![0] && message.equals(expected[at]![1] as Buffer),
    ),
  )
  assert.equal(here.messages.length, 10)
})

test('redis pub/sub: 10,000 messages of one turn arrive in order', async () => {
  const here = subscribeTo(['many'])
  const { publisher, lost } = speak()
  await count('channels', here.subscribed, 1)
  for (let number = 0; number < 10_000; number++) publisher.publish('many', Buffer.from(String(number)))
  await count('messages', here.messages, 10_000)
  assert.ok(here.messages.every(([, message], at) => message.toString() === String(at)))
  assert.deepEqual(lost, [])
})

test('redis pub/sub: a removed channel delivers nothing, and a channel added later does', async () => {
  const here = subscribeTo(['left', 'kept'])
  const { publisher } = speak()
  await count('channels', here.subscribed, 2)
  here.subscription.remove('left')
  here.subscription.add('later')
  here.subscription.add('later')
  await count('channels', here.subscribed, 3)
  for (const channel of ['left', 'kept', 'later']) publisher.publish(channel, Buffer.from('x'))
  await count('messages', here.messages, 2)
  assert.deepEqual(
    here.messages.map(([channel]) => channel),
    ['kept', 'later'],
  )
  const operator = await redis.connect()
  undo.push(() => operator.close())
  assert.deepEqual(await operator.send(['PUBSUB', 'NUMSUB', 'left', 'later']), ['left', 0, 'later', 1])
})

test('redis pub/sub: after a restart thousands of channels are subscribed again, with changes made meanwhile', async () => {
  const names = Array.from({ length: 3000 }, (_, number) => `channel ${number}`)
  const here = subscribeTo(names)
  const { publisher, lost, back } = speak()
  await count('channels', here.subscribed, 3000)
  publisher.publish('channel 0', Buffer.from('before'))
  await count('messages', here.messages, 1)
  await redis.kill()
  await count('losses', here.lost, 1)
  publisher.publish('channel 0', Buffer.from('lost'))
  await count('losses of the publisher', lost, 1)
  here.subscribed.length = 0
  here.subscription.remove('channel 1')
  here.subscription.add('channel new')
  await redis.start()
  await count('channels', here.subscribed, 3000)
  await eventually(() => {
    publisher.publish('channel 1', Buffer.from('for nobody'))
    return back() === 1
  }, 'the publisher is back')
  for (const channel of ['channel 0', 'channel 2999', 'channel new'])
    publisher.publish(channel, Buffer.from('x'))
  await count('messages', here.messages, 4)
  assert.deepEqual(
    here.messages.slice(1).map(([channel]) => channel),
    ['channel 0', 'channel 2999', 'channel new'],
  )
})

test('redis pub/sub: a frozen Redis is disconnected, and subscribed again when it responds', async () => {
  const here = subscribeTo(['frozen'])
  await count('channels', here.subscribed, 1)
  redis.signal('SIGSTOP')
  try {
    await count('losses', here.lost, 1)
    assert.match(String(here.lost[0]), /no sign of life/)
  } finally {
    redis.signal('SIGCONT')
  }
  await count('channels', here.subscribed, 2)
})

test('redis pub/sub: an idle connection stays open, because pings are answered', async () => {
  const here = subscribeTo(['quiet'])
  const bare = subscribeTo([])
  await count('channels', here.subscribed, 1)
  const operator = await redis.connect()
  undo.push(() => operator.close())
  const pings = async () =>
    Number(/cmdstat_ping:calls=(\d+)/.exec(String(await operator.send(['INFO', 'commandstats'])))?.[1] ?? 0)
  const before = await pings()
  await eventually(async () => (await pings()) >= before + 8, 'pings')
  assert.deepEqual([here.lost, bare.lost], [[], []])
})

test('redis pub/sub: a subscription that Redis closes reports the loss and subscribes again', async () => {
  const here = subscribeTo(['cut'])
  await count('channels', here.subscribed, 1)
  const operator = await redis.connect()
  undo.push(() => operator.close())
  await operator.send(['CLIENT', 'KILL', 'TYPE', 'pubsub'])
  await count('channels', here.subscribed, 2)
  assert.equal(here.lost.length, 1)
})

test('redis pub/sub: a login without channel permission is reported, and subscribes once permitted', async () => {
  const operator = await redis.connect()
  undo.push(() => operator.close())
  await operator.send(['ACL', 'SETUSER', 'deaf', 'on', '>pass', 'resetchannels', '+@all'])
  const here = subscribeTo(['a'], { ...address(), login: { user: 'deaf', password: 'pass' } })
  await count('losses', here.lost, 2)
  assert.ok(here.lost.every(reason => reason instanceof RedisError && reason.code === 'NOPERM'))
  assert.deepEqual(here.subscribed, [])
  await operator.send(['ACL', 'SETUSER', 'deaf', '&*'])
  await count('channels', here.subscribed, 1)
})

test('redis pub/sub: messages beyond the buffer are dropped and reported, and so is the end of the overload', async () => {
  const here = subscribeTo(['full'])
  await count('channels', here.subscribed, 1)
  const { publisher, lost, back } = speak(1_000_000, () =>
    publisher.publish('full', Buffer.alloc(900_000, 99)),
  )
  for (let number = 0; number < 15; number++) publisher.publish('full', Buffer.alloc(100_000, number))
  assert.equal(lost.length, 6)
  assert.ok(lost.every(reason => reason instanceof PublishBacklogFull))
  await count('messages', here.messages, 10)
  assert.deepEqual(
    here.messages.map(([, message]) => message[0]),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 99],
  )
  assert.deepEqual([lost.length, back()], [6, 1])
})

test('redis pub/sub: closing a publisher sends pending messages and closes the connection', async () => {
  const here = subscribeTo(['last words'])
  await count('channels', here.subscribed, 1)
  const { publisher, lost } = speak()
  publisher.publish('last words', Buffer.from('hello'))
  await count('messages', here.messages, 1)
  publisher.publish('last words', Buffer.from('goodbye'))
  await publisher.close()
  publisher.publish('last words', Buffer.from('too late'))
  await count('messages', here.messages, 2)
  assert.deepEqual(lost, [])
  const operator = await redis.connect()
  undo.push(() => operator.close())
  await eventually(async () => {
    const list = String(await operator.send(['CLIENT', 'LIST']))
    return list.trim().split('\n').length === 2
  }, 'two connections are left: the listener and the one that asks')
})
