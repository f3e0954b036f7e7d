// Nodes that tell each other about projects over a real Redis: to the others alone, of watched projects alone, and what
// a node learns about another that ends, falls silent or was not heard for a while.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createLog } from '#src/kernel/log.ts'
import { sealEnvelope } from '#src/services/realtime/span/envelope.ts'
import { alone, channelsOf, openSpan, type Span } from '#src/services/realtime/span.ts'
import { until } from '#test/cache-project.ts'
import { promptly } from '#test/promptly.ts'
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
const pace = { beatMs: 40, patientBeats: 5, readyMs: 1000 }

interface Node {
  span: Span
  logged: string[]
  say(projectId: string, text: string): void
}
interface Watching {
  /** `node: text`, in order. */
  said: string[]
  linked(): number
  gone: string[]
  end(): void
}

function node(url: string | undefined = redis.url, ofPlatform = secret): Node {
  const logged: string[] = []
  const log = createLog('debug', { write: line => void logged.push(line) })
  const span = openSpan({ redisUrl: url, deriveKey: keyring(ofPlatform), log }, pace)
  undo.push(() => span.close())
  return { span, logged, say: (projectId, text) => span.publish(projectId, Buffer.from(text)) }
}

async function watch({ span }: Node, projectId: string): Promise<Watching> {
  let linked = 0
  const said: string[] = []
  const gone: string[] = []
  const end = span.watch(projectId, {
    message: (message, from) => void said.push(`${from}: ${message}`),
    linked: () => void linked++,
    gone: each => void gone.push(each),
  })
  await span.ready(projectId)
  return { said, gone, end, linked: () => linked }
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

test('what one node says the others that watch the project hear once and in order, and itself not', async () => {
  const [a, b, c] = [node(), node(), node()]
  const id = project()
  const [here, there, elsewhere] = [await watch(a, id), await watch(b, id), await watch(c, project())]
  for (const text of ['1', '2', '3']) a.say(id, text)
  b.say(id, 'end')
  await until('both are heard', async () => here.said.length > 0 && there.said.length > 2)
  const ofA = [1, 2, 3].map(number => `${a.span.node}: ${number}`)
  assert.deepEqual([here.said, there.said, elsewhere.said], [[`${b.span.node}: end`], ofA, []])
})

test('a node that watches nothing can publish, and bytes come as they are', async () => {
  const [a, b] = [node(), node()]
  const id = project()
  const heard: Buffer[] = []
  undo.push(b.span.watch(id, { message: message => void heard.push(message), linked() {}, gone() {} }))
  await b.span.ready(id)
  const bytes = Buffer.from([0, 255, 13, 10, 36, 42, 0])
  a.span.publish(id, bytes)
  await until('it is heard', async () => heard.length === 1)
  assert.deepEqual(heard, [bytes])
})

test('a project is heard by those who watch it, and by no other platform on the same Redis', async () => {
  const [a, b, other] = [node(), node(), node(redis.url, 'the secret of another platform')]
  const [id, neighbour] = [project(), project()]
  const [here, next, foreign] = [await watch(b, id), await watch(b, neighbour), await watch(other, id)]
  a.say(id, 'for this one')
  a.say(neighbour, 'for that one')
  other.say(id, 'of another platform')
  await until('both are heard', async () => here.said.length > 0 && next.said.length > 0)
  const end = await watch(other, neighbour)
  assert.deepEqual(
    [here.said, next.said, foreign.said, end.said],
    [[`${a.span.node}: for this one`], [`${a.span.node}: for that one`], [], []],
  )
})

test('a project that is no longer watched is not listened to, nor is anything once nobody is there', async () => {
  const [a, b] = [node(), node()]
  const [id, kept] = [project(), project()]
  const left = await watch(b, id)
  const stays = await watch(b, kept)
  const listeners = async (channel: string) => {
    const operator = await redis.connect()
    const [, number] = (await operator.send(['PUBSUB', 'NUMSUB', channel])) as [string, number]
    operator.close()
    return number
  }
  assert.deepEqual([await listeners(ofProject(id)), await listeners(nodes)], [1, 1])
  left.end()
  await until('it is left', async () => (await listeners(ofProject(id))) === 0)
  a.say(id, 'x')
  a.say(kept, 'y')
  await until('the other is heard', async () => stays.said.length === 1)
  assert.deepEqual(left.said, [])
  stays.end()
  await until('nothing is listened to', async () => (await listeners(nodes)) === 0)
  const again = await watch(b, id)
  a.say(id, 'again')
  await until('it is heard again', async () => again.said.length === 1)
  assert.equal(again.linked(), 1)
})

test('a node that closes is gone for the others at once', async () => {
  const slow = { ...pace, beatMs: 600_000 }
  const open = () =>
    openSpan({ redisUrl: redis.url, deriveKey: keyring(secret), log: createLog('silent') }, slow)
  const [a, b] = [open(), open()]
  undo.push(() => b.close())
  const id = project()
  const gone: string[] = []
  a.watch(id, { message() {}, linked() {}, gone() {} })
  b.watch(id, { message() {}, linked() {}, gone: each => void gone.push(each) })
  await Promise.all([a.ready(id), b.ready(id)])
  await a.close()
  await until('it is gone', async () => gone.length > 0)
  assert.deepEqual(gone, [a.node])
})

test('a node that falls silent is gone after some beats, and one that gives signs of life is not', async () => {
  const [a, b] = [node(), node()]
  const id = project()
  const here = await watch(a, id)
  await watch(b, id)
  const silent = '0123456789abcdef'
  await asOperator(publish => publish(ofProject(id), sealEnvelope(silent, Buffer.from('hello'))))
  await until('it is heard', async () => here.said.includes(`${silent}: hello`))
  await until('it is gone', async () => here.gone.length > 0)
  assert.deepEqual(here.gone, [silent])
  // Several times as long as it took to give up the other.
  await sleep(pace.beatMs * pace.patientBeats * 3)
  assert.deepEqual(here.gone, [silent])
})

test('when a node that was given up is heard again, everybody is asked to say what counts', async () => {
  const a = node()
  const here = await watch(a, project())
  const absent = 'fedcba9876543210'
  const beat = sealEnvelope(absent, Buffer.from([1]))
  await asOperator(publish => publish(nodes, beat))
  await until('it is given up', async () => here.gone.length === 1)
  assert.equal(here.linked(), 1)
  await asOperator(publish => publish(nodes, beat))
  await until('it is linked again', async () => here.linked() === 2)
})

test('after Redis was restarted both are linked again, and then hear each other', async () => {
  const [a, b] = [node(), node()]
  const id = project()
  const [here, there] = [await watch(a, id), await watch(b, id)]
  a.say(id, 'before')
  await until('it is heard', async () => there.said.length === 1)
  await redis.kill()
  try {
    await until('it is noticed', async () => a.span.warnings().length + b.span.warnings().length >= 2)
    assert.match(
      a.span.warnings().join(),
      /cannot be reached: broadcast and presence do not reach other nodes/,
    )
    a.say(id, 'lost')
    assert.equal(a.span.ready(id), undefined)
  } finally {
    await redis.start()
  }
  await until('they are linked', async () => here.linked() > 1 && there.linked() > 1)
  await until('nothing is wrong', async () => a.span.warnings().length + b.span.warnings().length === 0)
  a.say(id, 'after')
  b.say(id, 'too')
  await until('they are heard', async () => there.said.length > 1 && here.said.length > 0)
  assert.deepEqual(there.said, [`${a.span.node}: before`, `${a.span.node}: after`])
  assert.deepEqual(here.said, [`${b.span.node}: too`])
  assert.match(a.logged.join(''), /"warn".*cannot be reached/)
  assert.match(a.logged.join(''), /"info".*again/)
})

test('a node whose publishing alone was cut links again: what it said meanwhile may be lost', async () => {
  const a = node()
  const here = await watch(a, project())
  assert.equal(here.linked(), 1)
  const operator = await redis.connect()
  undo.push(() => operator.close())
  // Refused for a moment, as it would be by a Redis that is loading.
  await operator.send(['ACL', 'SETUSER', 'default', '-publish'])
  await until('it is noticed', async () => a.span.warnings().length === 1)
  await operator.send(['ACL', 'SETUSER', 'default', '+publish'])
  await until('it is linked again', async () => here.linked() === 2)
  assert.deepEqual(a.span.warnings(), [])
})

test('what no node has sent, and a listener that fails, harm nobody', async () => {
  const [a, b] = [node(), node()]
  const id = project()
  undo.push(
    b.span.watch(id, {
      message() {
        throw new Error('not understood')
      },
      linked() {
        throw new Error('not now')
      },
      gone() {},
    }),
  )
  await b.span.ready(id)
  const other = project()
  const there = await watch(b, other)
  await asOperator(async publish => {
    for (const bytes of ['', 'x', 'a text that is longer than an envelope']) {
      await publish(ofProject(other), Buffer.from(bytes))
      await publish(nodes, Buffer.from(bytes))
    }
    await publish(nodes, sealEnvelope('00000000000000ff', Buffer.from('of a later release')))
  })
  a.say(id, 'to one that fails')
  a.say(other, 'heard')
  await until('it is heard', async () => there.said.length > 0)
  assert.deepEqual(there.said, [`${a.span.node}: heard`])
  assert.match(b.logged.join(''), /"error".*not understood/)
})

test('without Redis a node is alone', async () => {
  const lonely = openSpan({ redisUrl: undefined, deriveKey: keyring(secret), log: createLog('silent') })
  assert.equal(lonely, alone)
  const end = lonely.watch('p', { message: assert.fail, linked: assert.fail, gone: assert.fail })
  lonely.publish('p', Buffer.from('x'))
  assert.equal(lonely.ready('p'), undefined)
  assert.deepEqual(lonely.warnings(), [])
  end()
  await lonely.close()
})

test('a Redis that is away from the start holds nobody up', async () => {
  await redis.kill()
  try {
    await promptly(pace.readyMs + 500, async () => {
      const a = node()
      const begun = performance.now()
      await watch(a, project())
      a.say(project(), 'x')
      const ms = performance.now() - begun
      const closing = performance.now()
      await a.span.close()
      assert.ok(performance.now() - closing < 15_000)
      return ms
    })
  } finally {
    await redis.start()
  }
})
