// Nodes that die, and a Redis that is away, restarted, frozen or cut off: broadcast and presence go on where they can,
// and are one again afterwards. With a Redis of its own to mistreat.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { until } from '#test/cache-project.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { enter, everybodyLeaves, type Guest, hear, see } from '#test/realtime-guest.ts'
import { type RedisServer, startRedis } from '#test/redis-server.ts'

let redis: RedisServer
let here: TestPlatform
let there: TestPlatform
let project: CreatedProject
const undo: (() => unknown)[] = []
before(async () => {
  redis = await startRedis()
  const settings = { REDIS_URL: redis.url }
  here = await startPlatform({ settings })
  there = await startPlatform({ settings, beside: here })
  const quotas = { rate_limit_anon: 0, rate_limit_service_role: 0 }
  project = await here.projects.create({ body: { name: 'rooms', quotas } })
})
afterEach(async () => {
  await everybodyLeaves()
  for (const step of undo.splice(0).reverse()) await step()
})
after(async () => {
  await there?.stop()
  await here?.stop()
  await redis?.stop()
})

const newRoom = () => `room ${randomBytes(4).toString('hex')}`

/** A node as it is started in production. */
async function startMain(): Promise<{ url: string; child: ChildProcess }> {
  const { user, password, host, port } = here.address
  const cwd = mkdtempSync(join(tmpdir(), 'plinth-node-'))
  const child = spawn(process.execPath, [fileURLToPath(new URL('../src/main.ts', import.meta.url))], {
    cwd,
    env: {
      PATH: process.env['PATH'],
      PLATFORM_PORT: '0',
      PLATFORM_ADMIN_TOKEN: here.adminToken,
      CONTROL_PLANE_SECRET: here.controlPlaneSecret,
      DATABASE_URL: `postgres://${user}:${password}@${encodeURIComponent(host)}:${port}/${here.control}`,
      REDIS_URL: redis.url,
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  undo.push(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    rmSync(cwd, { recursive: true, force: true })
  })
  let said = ''
  child.stderr!.setEncoding('utf8').on('data', text => (said += text))
  await until('a start', async () => said.includes('running at') || child.exitCode !== null)
  assert.equal(child.exitCode, null, said)
  return { url: /running at (\S+)/.exec(said)![1]!, child }
}

/** They are in the same room, see each other and hear each other. */
async function areOne(guests: Guest[], present: string[]): Promise<void> {
  await see(guests, present)
  for (const [number, guest] of guests.entries()) {
    const event = `hello ${number} ${randomBytes(4).toString('hex')}`
    await until('it is heard', async () => {
      await guest.say(event, {})
      return guests.every(each => each === guest || each.heard.some(([name]) => name === event))
    })
  }
}

async function atTwoNodes(): Promise<[Guest, Guest]> {
  const room = newRoom()
  const [a, b] = [
    await enter(here, project, room, { key: 'ada' }),
    await enter(there, project, room, { key: 'bob' }),
  ]
  await a.track('glad')
  await b.track('calm')
  await see([a, b], ['ada:glad', 'bob:calm'])
  return [a, b]
}

const warnings = async ({ url }: { url: string }) => {
  const reply = await fetch(`${url}/api/v1/health/services`)
  const { warnings: found } = (await reply.json()) as { warnings: string[] }
  return found.filter(each => /broadcast and presence/.test(each))
}

test('who was on a node that is killed leaves within a quarter of a minute, and nobody else does', async () => {
  const node = await startMain()
  const [a, b] = await atTwoNodes()
  const room = a.channel.subTopic
  const c = await enter(node, project, room, { key: 'cleo' })
  await c.track('gone soon')
  await see([a, b, c], ['ada:glad', 'bob:calm', 'cleo:gone soon'])
  const [before] = [a, b].map(({ comings }) => comings.length)
  // What follows is not about a client that comes back elsewhere.
  const exit = once(node.child, 'exit')
  node.child.kill('SIGKILL')
  await exit
  // The rest is for a busy machine.
  await see([a, b], ['ada:glad', 'bob:calm'], 30)
  assert.deepEqual(a.comings.slice(before), ['-cleo:gone soon'])
})

test('who was on a node that is stopped leaves at once', async () => {
  const node = await startMain()
  const [a, b] = await atTwoNodes()
  const c = await enter(node, project, a.channel.subTopic, { key: 'cleo' })
  await c.track('gone soon')
  await see([a, b], ['ada:glad', 'bob:calm', 'cleo:gone soon'])
  node.child.kill('SIGTERM')
  await see([a, b], ['ada:glad', 'bob:calm'], 10)
})

test('a node that was held up for long and comes to again is one with the others again', async () => {
  const node = await startMain()
  const [a, b] = await atTwoNodes()
  const c = await enter(node, project, a.channel.subTopic, { key: 'cleo' })
  await c.track('asleep')
  await see([a, b, c], ['ada:glad', 'bob:calm', 'cleo:asleep'])
  node.child.kill('SIGSTOP')
  try {
    await see([a, b], ['ada:glad', 'bob:calm'])
    await a.track('sad')
  } finally {
    node.child.kill('SIGCONT')
  }
  await areOne([a, b, c], ['ada:sad', 'bob:calm', 'cleo:asleep'])
})

test('without Redis each node goes on by itself and says so; when it is back they are one, with what changed meanwhile', async () => {
  const [a, b] = await atTwoNodes()
  const room = a.channel.subTopic
  const near = await enter(here, project, room)
  await redis.kill()
  let late: Guest
  try {
    await until('both warn', async () => (await warnings(here)).length + (await warnings(there)).length === 2)
    await a.say('nearby', {})
    await hear([near], 'nearby')
    await a.track('lonely')
    late = await enter(there, project, room, { key: 'late' })
    await late.track('new')
    assert.equal(await b.channel.untrack(), 'ok')
    assert.deepEqual(b.heard, [])
  } finally {
    await redis.start()
  }
  await areOne([a, b, near, late], ['ada:lonely', 'late:new'])
  await until(
    'nobody warns',
    async () => (await warnings(here)).length + (await warnings(there)).length === 0,
  )
})

test('a Redis that is restarted quickly makes nobody leave', async () => {
  const [a, b] = await atTwoNodes()
  const before = [a, b].map(({ comings }) => comings.length)
  await redis.kill()
  await redis.start()
  await areOne([a, b], ['ada:glad', 'bob:calm'])
  for (const [index, { comings }] of [a, b].entries()) assert.deepEqual(comings.slice(before[index]), [])
})

test('a Redis that says nothing for a while holds up nobody on a node, and then they are one again', async () => {
  const [a, b] = await atTwoNodes()
  const near = await enter(here, project, a.channel.subTopic)
  redis.signal('SIGSTOP')
  try {
    assert.equal(await a.say('nearby', {}), 'ok')
    await hear([near], 'nearby')
    await a.track('waiting')
    await see([near], ['ada:waiting', 'bob:calm'])
    await until('both warn', async () => (await warnings(here)).length + (await warnings(there)).length === 2)
  } finally {
    redis.signal('SIGCONT')
  }
  await areOne([a, b, near], ['ada:waiting', 'bob:calm'])
})

test('nodes that Redis cuts off, as listeners or as speakers, are one again', async () => {
  const [a, b] = await atTwoNodes()
  const operator = await redis.connect()
  undo.push(() => operator.close())
  for (const type of ['pubsub', 'normal']) {
    await operator.send(['CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes'])
    await a.track(`after ${type}`)
    await areOne([a, b], [`ada:after ${type}`, 'bob:calm'])
  }
})

test('a project that is first used while Redis is away spans the nodes once it is back', async () => {
  const own = await here.projects.create({ body: { name: 'late', quotas: { rate_limit_service_role: 0 } } })
  const room = newRoom()
  await redis.kill()
  let guests: Guest[]
  try {
    guests = [await enter(here, own, room, { key: 'ada' }), await enter(there, own, room, { key: 'bob' })]
    for (const guest of guests) await guest.track('early')
  } finally {
    await redis.start()
  }
  await areOne(guests, ['ada:early', 'bob:early'])
})

test('whatever is cut while people come, change and go, all nodes agree in the end, and nothing is heard twice', async () => {
  const third = await startPlatform({ settings: { REDIS_URL: redis.url }, beside: here })
  undo.push(() => third.stop())
  const operator = await redis.connect()
  undo.push(() => operator.close())
  const room = newRoom()
  const names = Array.from({ length: 9 }, (_, number) => `guest ${number}`)
  const nodes = [here, there, third]
  const guests = new Map<string, Guest>()
  const moods = new Map<string, string>()
  /** Of a guest since it came: five are allowed in half a minute. */
  const tracks = new Map<string, number>()
  const come = async (name: string) =>
    guests.set(name, await enter(nodes[names.indexOf(name) % 3]!, project, room, { key: name }))
  for (const name of names) await come(name)
  const pick = <T>(from: readonly T[]) => from[Math.floor(Math.random() * from.length)]!
  const steps: Record<string, (name: string, step: number) => Promise<unknown>> = {
    async track(name, step) {
      const times = (tracks.get(name) ?? 0) + 1
      if (times > 4) return steps['comeAgain']!(name, step)
      tracks.set(name, times)
      await guests.get(name)!.track(`mood ${step}`)
      moods.set(name, `mood ${step}`)
    },
    async untrack(name) {
      assert.equal(await guests.get(name)!.channel.untrack(), 'ok')
      moods.delete(name)
    },
    async comeAgain(name) {
      await guests.get(name)!.leave()
      moods.delete(name)
      tracks.delete(name)
      await come(name)
    },
    say: (name, step) => guests.get(name)!.say(`said ${step}`, {}),
    cut: () => operator.send(['CLIENT', 'KILL', 'TYPE', pick(['pubsub', 'normal']), 'SKIPME', 'yes']),
  }
  const done: string[] = []
  for (let step = 0; step < 90; step++) {
    const [name, what] = [pick(names), pick(['track', 'track', 'untrack', 'comeAgain', 'say', 'cut'])]
    done.push(`${what} ${name}`)
    await steps[what]!(name, step)
  }
  const everybody = [...guests.values()]
  const expected = Array.from(moods, ([name, mood]) => `${name}:${mood}`)
  await see(everybody, expected).catch(error => {
    throw new Error(`${error.message} after ${done.join(', ')}`)
  })
  for (const { heard } of everybody) assert.equal(new Set(heard.map(([event]) => event)).size, heard.length)
})
