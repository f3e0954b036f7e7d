// The bus between nodes over a real Redis: who receives a message, and how nodes notice that another one shut down, failed
// or was disconnected.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { encodePacket } from '#src/services/realtime/bus/packet.ts'
import { type Bus, channelsOf, openBus, singleNodeBus } from '#src/services/realtime/bus.ts'
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

const secret = 'a secret that the nodes of a platform share'
const timing = { heartbeatMs: 40, maxMissedHeartbeats: 5, readyMs: 1000 }

interface Node {
  bus: Bus
  logged: string[]
  publish(projectId: string, text: string): void
}
interface Subscribed {
  /** `node: text`, in order. */
  received: string[]
  connected(): number
  gone: string[]
  end(): void
}

function node(url: string | undefined = redis.url, ofPlatform = secret): Node {
  const logged: string[] = []
  const log = createLog('debug', { write: line => void logged.push(line) })
  const bus = openBus({ redisUrl: url, deriveKey: keyring(ofPlatform), log }, timing)
  undo.push(() => bus.close())
  return { bus, logged, publish: (projectId, text) => bus.publish(projectId, Buffer.from(text)) }
}

async function subscribe({ bus }: Node, projectId: string): Promise<Subscribed> {
  let connected = 0
  const received: string[] = []
  const gone: string[] = []
  const end = bus.subscribe(projectId, {
    message: (message, from) => void received.push(`${from}: ${message}`),
    connected: () => void connected++,
    nodeGone: each => void gone.push(each),
  })
  await bus.ready(projectId)
  return { received, gone, end, connected: () => connected }
}

async function asOperator<T>(
  work: (publish: (channel: string, message: Buffer) => Promise<unknown>) => Promise<T>,
) {
  const operator = await redis.connect()
  try {
    return await work((channel, message) => operator.send(['PUBLISH', channel, message]))
  } finally {
    operator.close()
  }
}

const project = () => randomUUID()
const { nodes, ofProject } = channelsOf(keyring(secret))

test('bus: other subscribed nodes receive a message once and in order, the sender does not', async () => {
  const [a, b, c] = [node(), node(), node()]
  const id = project()
  const [here, there, elsewhere] = [
    await subscribe(a, id),
    await subscribe(b, id),
    await subscribe(c, project()),
  ]
  for (const text of ['1', '2', '3']) a.publish(id, text)
  b.publish(id, 'end')
  await eventually(() => here.received.length > 0 && there.received.length > 2, 'both messages arrive')
  const ofA = [1, 2, 3].map(number => `${a.bus.node}: ${number}`)
  assert.deepEqual([here.received, there.received, elsewhere.received], [[`${b.bus.node}: end`], ofA, []])
})

test('bus: a node without subscriptions can publish, and payloads arrive unchanged', async () => {
  const [a, b] = [node(), node()]
  const id = project()
  const received: Buffer[] = []
  undo.push(
    b.bus.subscribe(id, { message: message => void received.push(message), connected() {}, nodeGone() {} }),
  )
  await b.bus.ready(id)
  const bytes = Buffer.from([0, 255, 13, 10, 36, 42, 0])
  a.bus.publish(id, bytes)
  await eventually(() => received.length === 1, 'the message arrives')
  assert.deepEqual(received, [bytes])
})

test('bus: only subscribers of the project receive a message, and no other platform on the same Redis', async () => {
  const [a, b, other] = [node(), node(), node(redis.url, 'the secret of another platform')]
  const [id, neighbour] = [project(), project()]
  const [here, next, foreign] = [
    await subscribe(b, id),
    await subscribe(b, neighbour),
    await subscribe(other, id),
  ]
  a.publish(id, 'for this one')
  a.publish(neighbour, 'for that one')
  other.publish(id, 'of another platform')
  await eventually(() => here.received.length > 0 && next.received.length > 0, 'both messages arrive')
  const end = await subscribe(other, neighbour)
  assert.deepEqual(
    [here.received, next.received, foreign.received, end.received],
    [[`${a.bus.node}: for this one`], [`${a.bus.node}: for that one`], [], []],
  )
})

test('bus: a node unsubscribes from a project, and from all channels with the last one', async () => {
  const [a, b] = [node(), node()]
  const [id, kept] = [project(), project()]
  const left = await subscribe(b, id)
  const stays = await subscribe(b, kept)
  const subscriberCount = async (channel: string) => {
    const operator = await redis.connect()
    const [, number] = (await operator.send(['PUBSUB', 'NUMSUB', channel])) as [string, number]
    operator.close()
    return number
  }
  assert.deepEqual([await subscriberCount(ofProject(id)), await subscriberCount(nodes)], [1, 1])
  left.end()
  await eventually(async () => (await subscriberCount(ofProject(id))) === 0, 'the channel has no subscriber')
  a.publish(id, 'x')
  a.publish(kept, 'y')
  await eventually(() => stays.received.length === 1, 'the other message arrives')
  assert.deepEqual(left.received, [])
  stays.end()
  await eventually(async () => (await subscriberCount(nodes)) === 0, 'no channel has a subscriber')
  const again = await subscribe(b, id)
  a.publish(id, 'again')
  await eventually(() => again.received.length === 1, 'the message arrives')
  assert.equal(again.connected(), 1)
})

test('bus: other nodes drop a node that shuts down at once', async () => {
  const slow = { ...timing, heartbeatMs: 600_000 }
  const open = () =>
    openBus({ redisUrl: redis.url, deriveKey: keyring(secret), log: createLog('silent') }, slow)
  const [a, b] = [open(), open()]
  undo.push(() => b.close())
  const id = project()
  const gone: string[] = []
  a.subscribe(id, { message() {}, connected() {}, nodeGone() {} })
  b.subscribe(id, { message() {}, connected() {}, nodeGone: each => void gone.push(each) })
  await Promise.all([a.ready(id), b.ready(id)])
  await a.close()
  await eventually(() => gone.length > 0, 'the node is dropped')
  assert.deepEqual(gone, [a.node])
})

test('bus: a node that misses too many heartbeats is dropped, and one that sends them is not', async () => {
  const [a, b] = [node(), node()]
  const id = project()
  const here = await subscribe(a, id)
  await subscribe(b, id)
  const silent = '0123456789abcdef'
  await asOperator(publish => publish(ofProject(id), encodePacket(silent, Buffer.from('hello'))))
  await eventually(() => here.received.includes(`${silent}: hello`), 'the message arrives')
  await eventually(() => here.gone.length > 0, 'the node is dropped')
  assert.deepEqual(here.gone, [silent])
  // Several times as long as it took to drop the other node.
  await sleep(timing.heartbeatMs * timing.maxMissedHeartbeats * 3)
  assert.deepEqual(here.gone, [silent])
})

test('bus: when a dropped node returns, handlers are asked to exchange their state', async () => {
  const a = node()
  const here = await subscribe(a, project())
  const absent = 'fedcba9876543210'
  const beat = encodePacket(absent, Buffer.from([1]))
  await asOperator(publish => publish(nodes, beat))
  await eventually(() => here.gone.length === 1, 'the node is dropped')
  assert.equal(here.connected(), 1)
  await asOperator(publish => publish(nodes, beat))
  await eventually(() => here.connected() === 2, 'the node reconnects')
})

test("bus: after a restart of Redis the nodes reconnect and receive each other's messages", async () => {
  const [a, b] = [node(), node()]
  const id = project()
  const [here, there] = [await subscribe(a, id), await subscribe(b, id)]
  a.publish(id, 'before')
  await eventually(() => there.received.length === 1, 'the message arrives')
  await redis.kill()
  try {
    await eventually(() => a.bus.warnings().length + b.bus.warnings().length >= 2, 'the failure is reported')
    assert.match(
      a.bus.warnings().join(),
      /cannot be reached: broadcast and presence do not reach other nodes/,
    )
    a.publish(id, 'lost')
    assert.equal(a.bus.ready(id), undefined)
  } finally {
    await redis.start()
  }
  await eventually(() => here.connected() > 1 && there.connected() > 1, 'both nodes reconnect')
  await eventually(() => a.bus.warnings().length + b.bus.warnings().length === 0, 'no warning is left')
  a.publish(id, 'after')
  b.publish(id, 'too')
  await eventually(() => there.received.length > 1 && here.received.length > 0, 'both messages arrive')
  assert.deepEqual(there.received, [`${a.bus.node}: before`, `${a.bus.node}: after`])
  assert.deepEqual(here.received, [`${b.bus.node}: too`])
  assert.match(a.logged.join(''), /"warn".*cannot be reached/)
  assert.match(a.logged.join(''), /"info".*again/)
})

test('bus: a node reconnects after publishing alone failed, because its messages may be lost', async () => {
  const a = node()
  const here = await subscribe(a, project())
  assert.equal(here.connected(), 1)
  const operator = await redis.connect()
  undo.push(() => operator.close())
  // Rejected for a moment, as by a Redis that is loading.
  await operator.send(['ACL', 'SETUSER', 'default', '-publish'])
  await eventually(() => a.bus.warnings().length === 1, 'the failure is reported')
  await operator.send(['ACL', 'SETUSER', 'default', '+publish'])
  await eventually(() => here.connected() === 2, 'the node reconnects')
  assert.deepEqual(a.bus.warnings(), [])
})

test('bus: malformed packets and a failing handler do not affect other projects', async () => {
  const [a, b] = [node(), node()]
  const id = project()
  undo.push(
    b.bus.subscribe(id, {
      message() {
        throw new Error('not understood')
      },
      connected() {
        throw new Error('not now')
      },
      nodeGone() {},
    }),
  )
  await b.bus.ready(id)
  const other = project()
  const there = await subscribe(b, other)
  await asOperator(async publish => {
    for (const bytes of ['', 'x', 'a text that is longer than a packet header']) {
      await publish(ofProject(other), Buffer.from(bytes))
      await publish(nodes, Buffer.from(bytes))
    }
    await publish(nodes, encodePacket('00000000000000ff', Buffer.from('of a later release')))
  })
  a.publish(id, 'to a failing handler')
  a.publish(other, 'heard')
  await eventually(() => there.received.length > 0, 'the message arrives')
  assert.deepEqual(there.received, [`${a.bus.node}: heard`])
  assert.match(b.logged.join(''), /"error".*not understood/)
})

test('bus: without Redis the single-node bus is used', async () => {
  const single = openBus({ redisUrl: undefined, deriveKey: keyring(secret), log: createLog('silent') })
  assert.equal(single, singleNodeBus)
  const end = single.subscribe('p', { message: assert.fail, connected: assert.fail, nodeGone: assert.fail })
  single.publish('p', Buffer.from('x'))
  assert.equal(single.ready('p'), undefined)
  assert.deepEqual(single.warnings(), [])
  end()
  await single.close()
})

test('bus: a node subscribes, publishes and closes while Redis is unreachable', async () => {
  await redis.kill()
  try {
    const a = node()
    await subscribe(a, project())
    a.publish(project(), 'x')
    await a.bus.close()
  } finally {
    await redis.start()
  }
})
