// Killed nodes, and a Redis that is down, restarted, frozen or disconnected: broadcast and presence work within each node,
// and agree again afterwards. Uses its own Redis.
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
import { eventually } from '#test/eventually.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { joinTopic, leaveAll, type Member, receive, seePresence } from '#test/realtime-member.ts'
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
  await leaveAll()
  for (const step of undo.splice(0).reverse()) await step()
})
after(async () => {
  await there?.stop()
  await here?.stop()
  await redis?.stop()
})

const newTopic = () => `room ${randomBytes(4).toString('hex')}`

/** A node in its own process, started like in production. */
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
  let output = ''
  child.stderr!.setEncoding('utf8').on('data', text => (output += text))
  await eventually(() => output.includes('running at') || child.exitCode !== null, 'the node starts')
  assert.equal(child.exitCode, null, output)
  return { url: /running at (\S+)/.exec(output)![1]!, child }
}

/** Waits until the members of a topic see each other and receive each other's broadcasts. */
async function areOne(members: Member[], present: string[]): Promise<void> {
  await seePresence(members, present)
  for (const [number, member] of members.entries()) {
    const event = `hello ${number} ${randomBytes(4).toString('hex')}`
    await eventually(async () => {
      await member.send(event, {})
      return members.every(each => each === member || each.broadcasts.some(([name]) => name === event))
    }, 'the broadcast arrives')
  }
}

async function atTwoNodes(): Promise<[Member, Member]> {
  const room = newTopic()
  const [a, b] = [
    await joinTopic(here, project, room, { key: 'ada' }),
    await joinTopic(there, project, room, { key: 'bob' }),
  ]
  await a.track('glad')
  await b.track('calm')
  await seePresence([a, b], ['ada:glad', 'bob:calm'])
  return [a, b]
}

const warnings = async ({ url }: { url: string }) => {
  const reply = await fetch(`${url}/api/v1/health/services`)
  const { warnings: found } = (await reply.json()) as { warnings: string[] }
  return found.filter(each => /broadcast and presence/.test(each))
}

test('realtime nodes: members of a killed node leave within 15 seconds, and no others', async () => {
  const node = await startMain()
  const [a, b] = await atTwoNodes()
  const room = a.channel.subTopic
  const c = await joinTopic(node, project, room, { key: 'cleo' })
  await c.track('gone soon')
  await seePresence([a, b, c], ['ada:glad', 'bob:calm', 'cleo:gone soon'])
  const [before] = [a, b].map(({ presenceEvents }) => presenceEvents.length)
  const exit = once(node.child, 'exit')
  node.child.kill('SIGKILL')
  await exit
  await seePresence([a, b], ['ada:glad', 'bob:calm'])
  assert.deepEqual(a.presenceEvents.slice(before), ['-cleo:gone soon'])
})

test('realtime nodes: members of a stopped node leave at once', async () => {
  const node = await startMain()
  const [a, b] = await atTwoNodes()
  const c = await joinTopic(node, project, a.channel.subTopic, { key: 'cleo' })
  await c.track('gone soon')
  await seePresence([a, b], ['ada:glad', 'bob:calm', 'cleo:gone soon'])
  const since = performance.now()
  node.child.kill('SIGTERM')
  await seePresence([a, b], ['ada:glad', 'bob:calm'])
  assert.ok(performance.now() - since < 10_000, 'before its heartbeats are missed')
})

test('realtime nodes: a node that was suspended and resumes agrees with the others again', async () => {
  const node = await startMain()
  const [a, b] = await atTwoNodes()
  const c = await joinTopic(node, project, a.channel.subTopic, { key: 'cleo' })
  await c.track('asleep')
  await seePresence([a, b, c], ['ada:glad', 'bob:calm', 'cleo:asleep'])
  node.child.kill('SIGSTOP')
  try {
    await seePresence([a, b], ['ada:glad', 'bob:calm'])
    await a.track('sad')
  } finally {
    node.child.kill('SIGCONT')
  }
  await areOne([a, b, c], ['ada:sad', 'bob:calm', 'cleo:asleep'])
})

test('realtime nodes: without Redis each node serves its own clients and warns; afterwards presence is merged', async () => {
  const [a, b] = await atTwoNodes()
  const room = a.channel.subTopic
  const near = await joinTopic(here, project, room)
  await redis.kill()
  let late: Member
  try {
    await eventually(
      async () => (await warnings(here)).length + (await warnings(there)).length === 2,
      'both warn',
    )
    await a.send('nearby', {})
    await receive([near], 'nearby')
    await a.track('lonely')
    late = await joinTopic(there, project, room, { key: 'late' })
    await late.track('new')
    assert.equal(await b.channel.untrack(), 'ok')
    assert.deepEqual(b.broadcasts, [])
  } finally {
    await redis.start()
  }
  await areOne([a, b, near, late], ['ada:lonely', 'late:new'])
  await eventually(
    async () => (await warnings(here)).length + (await warnings(there)).length === 0,
    'nobody warns',
  )
})

test('realtime nodes: a quick restart of Redis makes no member leave', async () => {
  const [a, b] = await atTwoNodes()
  const before = [a, b].map(({ presenceEvents }) => presenceEvents.length)
  await redis.kill()
  await redis.start()
  await areOne([a, b], ['ada:glad', 'bob:calm'])
  for (const [index, { presenceEvents }] of [a, b].entries())
    assert.deepEqual(presenceEvents.slice(before[index]), [])
})

test('realtime nodes: a frozen Redis delays nobody on a node, and the nodes agree afterwards', async () => {
  const [a, b] = await atTwoNodes()
  const near = await joinTopic(here, project, a.channel.subTopic)
  redis.signal('SIGSTOP')
  try {
    assert.equal(await a.send('nearby', {}), 'ok')
    await receive([near], 'nearby')
    await a.track('waiting')
    await seePresence([near], ['ada:waiting', 'bob:calm'])
    await eventually(
      async () => (await warnings(here)).length + (await warnings(there)).length === 2,
      'both warn',
    )
  } finally {
    redis.signal('SIGCONT')
  }
  await areOne([a, b, near], ['ada:waiting', 'bob:calm'])
})

test('realtime nodes: nodes recover after Redis closes their subscriber or publisher connections', async () => {
  const [a, b] = await atTwoNodes()
  const operator = await redis.connect()
  undo.push(() => operator.close())
  for (const type of ['pubsub', 'normal']) {
    await operator.send(['CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes'])
    await a.track(`after ${type}`)
    await areOne([a, b], [`ada:after ${type}`, 'bob:calm'])
  }
})

test('realtime nodes: a project first used without Redis reaches other nodes once Redis is back', async () => {
  const own = await here.projects.create({ body: { name: 'late', quotas: { rate_limit_service_role: 0 } } })
  const room = newTopic()
  await redis.kill()
  let members: Member[]
  try {
    members = [
      await joinTopic(here, own, room, { key: 'ada' }),
      await joinTopic(there, own, room, { key: 'bob' }),
    ]
    for (const member of members) await member.track('early')
  } finally {
    await redis.start()
  }
  await areOne(members, ['ada:early', 'bob:early'])
})

test('realtime nodes: after random disconnects and presence changes all nodes agree, and no broadcast arrives twice', async () => {
  const third = await startPlatform({ settings: { REDIS_URL: redis.url }, beside: here })
  undo.push(() => third.stop())
  const operator = await redis.connect()
  undo.push(() => operator.close())
  const room = newTopic()
  const names = Array.from({ length: 9 }, (_, number) => `guest ${number}`)
  const nodes = [here, there, third]
  const members = new Map<string, Member>()
  const moods = new Map<string, string>()
  /** Tracks per member since it joined: 5 are allowed in 30 seconds. */
  const tracks = new Map<string, number>()
  const come = async (name: string) =>
    members.set(name, await joinTopic(nodes[names.indexOf(name) % 3]!, project, room, { key: name }))
  for (const name of names) await come(name)
  const pick = <T>(from: readonly T[]) => from[Math.floor(Math.random() * from.length)]!
  const steps: Record<string, (name: string, step: number) => Promise<unknown>> = {
    async track(name, step) {
      const times = (tracks.get(name) ?? 0) + 1
      if (times > 4) return steps['comeAgain']!(name, step)
      tracks.set(name, times)
      await members.get(name)!.track(`mood ${step}`)
      moods.set(name, `mood ${step}`)
    },
    async untrack(name) {
      assert.equal(await members.get(name)!.channel.untrack(), 'ok')
      moods.delete(name)
    },
    async comeAgain(name) {
      await members.get(name)!.leave()
      moods.delete(name)
      tracks.delete(name)
      await come(name)
    },
    send: (name, step) => members.get(name)!.send(`said ${step}`, {}),
    cut: () => operator.send(['CLIENT', 'KILL', 'TYPE', pick(['pubsub', 'normal']), 'SKIPME', 'yes']),
  }
  const done: string[] = []
  for (let step = 0; step < 90; step++) {
    const [name, what] = [pick(names), pick(['track', 'track', 'untrack', 'comeAgain', 'send', 'cut'])]
    done.push(`${what} ${name}`)
    await steps[what]!(name, step)
  }
  const everybody = [...members.values()]
  const expected = Array.from(moods, ([name, mood]) => `${name}:${mood}`)
  await seePresence(everybody, expected).catch(error => {
    throw new Error(`${error.message} after ${done.join(', ')}`)
  })
  for (const { broadcasts } of everybody)
    assert.equal(new Set(broadcasts.map(([event]) => event)).size, broadcasts.length)
})
