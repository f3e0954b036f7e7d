// Two nodes on one Postgres and one Redis: broadcast, presence and row changes reach clients on both.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, afterEach, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import { connectRedis } from '#src/kernel/redis/connection.ts'
import { createRedisUsers } from '#src/services/cache/redis/users.ts'
import { channelsOf } from '#src/services/realtime/bus.ts'
import { cacheProject } from '#test/cache-project.ts'
import { eventually } from '#test/eventually.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { joinTopic, leaveAll, receive, seePresence } from '#test/realtime-member.ts'

let here: TestPlatform
let there: TestPlatform
let project: CreatedProject
before(async () => {
  here = await startPlatform()
  there = await startPlatform({ beside: here })
  project = await newProject()
})
afterEach(leaveAll)
after(async () => {
  await there?.stop()
  await here?.stop()
})

const quotas = { rate_limit_anon: 0, rate_limit_service_role: 0 }
const newProject = () => here.projects.create({ body: { name: 'rooms', quotas } })
const newTopic = () => `room ${randomBytes(4).toString('hex')}`
const broadcast = (at: TestPlatform, body: object, path = 'api/broadcast') =>
  at.call('POST', `/v1/${project.id}/realtime/v1/${path}`, { apikey: project.service_role_key, body })

test('realtime nodes: a broadcast reaches all members on both nodes once and in order, except the sender', async () => {
  const room = newTopic()
  const [a, b] = [await joinTopic(here, project, room), await joinTopic(here, project, room)]
  const [c, d] = [
    await joinTopic(there, project, room),
    await joinTopic(there, project, room, { self: true }),
  ]
  for (let number = 0; number < 20; number++) assert.equal(await a.send('number', { number }), 'ok')
  // Messages of different nodes have no order among each other.
  await eventually(
    () => [b, c, d].every(({ broadcasts }) => broadcasts.length === 20),
    'all broadcasts arrive',
  )
  await d.send('end', { text: 'tèxt 日😀\0' })
  await receive([a, b, c, d], 'end')
  const numbers = Array.from({ length: 20 }, (_, number) => ['number', { number }])
  const end = ['end', { text: 'tèxt 日😀\0' }]
  assert.deepEqual(
    [a.broadcasts, b.broadcasts, c.broadcasts, d.broadcasts],
    [[end], [...numbers, end], [...numbers, end], [...numbers, end]],
  )
})

test('realtime nodes: binary payloads reach the other node unchanged', async () => {
  const room = newTopic()
  const [a, b] = [await joinTopic(here, project, room), await joinTopic(there, project, room)]
  const bytes = randomBytes(300_000)
  for (const each of [Buffer.alloc(0), Buffer.from([0, 255, 13, 10]), bytes]) {
    b.broadcasts.length = 0
    const { buffer } = new Uint8Array(each)
    await a.send('bytes', buffer)
    await receive([b], 'bytes')
    assert.ok((b.broadcasts[0]![1] as Buffer).equals(each))
  }
})

test('realtime nodes: a private and a public topic of the same name are separate on every node', async () => {
  const room = newTopic()
  const [open, closed] = [
    await joinTopic(here, project, room),
    await joinTopic(there, project, room, { isPrivate: true }),
  ]
  const [others, members] = [
    await joinTopic(there, project, room),
    await joinTopic(here, project, room, { isPrivate: true }),
  ]
  await open.send('open', {})
  await closed.send('closed', {})
  await receive([others], 'open')
  await receive([members], 'closed')
  await open.send('end', {})
  await closed.send('end', {})
  await receive([others, members], 'end')
  const names = [others, members].map(({ broadcasts }) => broadcasts.map(([event]) => event))
  assert.deepEqual(names, [
    ['open', 'end'],
    ['closed', 'end'],
  ])
  assert.deepEqual([open.broadcasts, closed.broadcasts], [[], []])
})

test('realtime nodes: an HTTP broadcast reaches members on both nodes, private topics separately', async () => {
  const room = newTopic()
  const open = [await joinTopic(here, project, room), await joinTopic(there, project, room)]
  const closed = [
    await joinTopic(here, project, room, { isPrivate: true }),
    await joinTopic(there, project, room, { isPrivate: true }),
  ]
  const messages = [
    { topic: room, event: 'first', payload: { a: 1 } },
    { topic: room, event: 'secret', payload: { b: 2 }, private: true },
    { topic: room, event: 'end', payload: {} },
    { topic: room, event: 'end', payload: {}, private: true },
  ]
  assert.equal((await broadcast(there, { messages })).status, 202)
  await receive([...open, ...closed], 'end')
  for (const { broadcasts } of open)
    assert.deepEqual(broadcasts, [
      ['first', { a: 1 }],
      ['end', {}],
    ])
  for (const { broadcasts } of closed)
    assert.deepEqual(broadcasts, [
      ['secret', { b: 2 }],
      ['end', {}],
    ])
})

test('realtime nodes: a node without sockets of the project sends HTTP broadcasts to the other node', async () => {
  const room = newTopic()
  const b = await joinTopic(there, project, room)
  const sent = await broadcast(here, { c: 3 }, `api/broadcast/${encodeURIComponent(room)}/events/alone`)
  assert.equal(sent.status, 202)
  await receive([b], 'alone')
  assert.deepEqual(b.broadcasts, [['alone', { c: 3 }]])
})

test('realtime nodes: a new member sees the presence of the other node, and all see joins, updates and leaves', async () => {
  const room = newTopic()
  const a = await joinTopic(here, project, room, { key: 'ada' })
  await a.track('glad')
  const b = await joinTopic(there, project, room, { key: 'bob' })
  await seePresence([a, b], ['ada:glad'])
  await b.track('calm')
  await seePresence([a, b], ['ada:glad', 'bob:calm'])
  await a.track('tired')
  await seePresence([a, b], ['ada:tired', 'bob:calm'])
  const c = await joinTopic(there, project, room, { key: 'ada' })
  await c.track('awake')
  await seePresence([a, b, c], ['ada:awake', 'ada:tired', 'bob:calm'])
  assert.equal(await a.channel.untrack(), 'ok')
  await seePresence([a, b, c], ['ada:awake', 'bob:calm'])
  await b.leave()
  await seePresence([a, c], ['ada:awake'])
  await c.leave()
  await seePresence([a], [])
  // Each join and leave arrives once, although several messages between nodes carry it.
  const ofBob = a.presenceEvents.filter(each => each.includes('bob'))
  assert.deepEqual(ofBob, ['+bob:calm', '-bob:calm'])
})

test('realtime nodes: the first member on a node gets the presence of the other, per topic and private ones separately', async () => {
  const own = await newProject()
  const rooms = Array.from({ length: 5 }, newTopic)
  for (const room of rooms)
    for (const isPrivate of [false, true]) {
      const member = await joinTopic(here, own, room, { key: room, isPrivate })
      await member.track(isPrivate ? 'private' : 'public')
    }
  const [first] = rooms as [string]
  const open = await joinTopic(there, own, first)
  const closed = await joinTopic(there, own, first, { isPrivate: true })
  await seePresence([open], [`${first}:public`])
  await seePresence([closed], [`${first}:private`])
  const last = await joinTopic(there, own, rooms[4]!)
  await seePresence([last], [`${rooms[4]}:public`])
})

test('realtime nodes: topics of the same name in two projects are separate', async () => {
  const other = await newProject()
  const room = newTopic()
  const [a, b] = [await joinTopic(here, project, room, { key: 'ada' }), await joinTopic(there, project, room)]
  const [x, y] = [await joinTopic(here, other, room, { key: 'xenia' }), await joinTopic(there, other, room)]
  await a.track('glad')
  await x.track('calm')
  await seePresence([a, b], ['ada:glad'])
  await seePresence([x, y], ['xenia:calm'])
  await a.send('of one', {})
  await x.send('of the other', {})
  await receive([b], 'of one')
  await receive([y], 'of the other')
  assert.deepEqual([b.broadcasts.length, y.broadcasts.length], [1, 1])
})

test('realtime nodes: row changes reach subscribers on both nodes once', async () => {
  const own = await newProject()
  const ref = await here.refOf(own.id)
  const script = (at: TestPlatform, text: string) =>
    at.app.databases.asOwner({ ref }, session => session.script(text).then(() => {}))
  await script(here, 'create table public.notes (id int primary key)')
  const members = [
    await joinTopic(here, own, newTopic(), { table: 'notes' }),
    await joinTopic(there, own, newTopic(), { table: 'notes' }),
  ]
  await script(here, 'insert into public.notes values (1), (2)')
  await script(there, 'insert into public.notes values (3)')
  const expected = ['notes:1', 'notes:2', 'notes:3']
  await eventually(() => members.every(({ rows }) => rows.includes('notes:3')), 'the rows arrive')
  for (const { rows } of members) assert.deepEqual(rows, expected)
})

test('realtime nodes: messages sent by SQL reach members on both nodes once', async () => {
  const own = await newProject()
  const ref = await here.refOf(own.id)
  const room = newTopic()
  const members = [
    await joinTopic(here, own, room, { isPrivate: true }),
    await joinTopic(there, own, room, { isPrivate: true }),
  ]
  const send = (event: string) =>
    here.app.databases.asOwner({ ref }, session =>
      session.script(`select realtime.send('{"a": 1}', '${event}', '${room}')`).then(() => {}),
    )
  await send('from SQL')
  await send('end')
  await receive(members, 'end')
  for (const { broadcasts } of members)
    assert.deepEqual(
      broadcasts.map(([event]) => event),
      ['from SQL', 'end'],
    )
})

test('realtime nodes: suspending a project on one node closes its sockets on both', async () => {
  const own = await newProject()
  const room = newTopic()
  const b = await joinTopic(there, own, room)
  await here.projects.suspend({ params: { id: own.id } })
  await eventually(() => !b.channel.socket.isConnected(), 'the member is disconnected')
})

test('realtime nodes: the Redis user of a project can neither publish nor subscribe on the channels between nodes', async () => {
  const own = await cacheProject(here)
  await own.set('a', '1')
  const { login } = createRedisUsers(keyring(here.controlPlaneSecret))
  const { nodes, ofProject } = channelsOf(keyring(here.controlPlaneSecret))
  const user = await connectRedis({ ...parseRedisUrl(here.config.redisUrl!), login: login(own.id) })
  try {
    for (const channel of [nodes, ofProject(own.id), ofProject(project.id)])
      for (const command of [
        ['PUBLISH', channel, 'x'],
        ['SPUBLISH', channel, 'x'],
        ['SUBSCRIBE', channel],
        ['SSUBSCRIBE', channel],
        ['PSUBSCRIBE', '*'],
        ['PUBSUB', 'CHANNELS'],
      ])
        await assert.rejects(user.send(command), { code: 'NOPERM' }, command.join(' '))
  } finally {
    user.close()
  }
})
