// Two nodes on one Postgres and one Redis behave as one: broadcast, presence and row changes reach who is on the other.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, afterEach, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { parseRedisUrl } from '#src/kernel/redis/address.ts'
import { connectRedis } from '#src/kernel/redis/connection.ts'
import { createRedisUsers } from '#src/services/cache/redis/users.ts'
import { channelsOf } from '#src/services/realtime/span.ts'
import { cacheProject, until } from '#test/cache-project.ts'
import { startPlatform, type TestPlatform } from '#test/harness.ts'
import { enter, everybodyLeaves, hear, see } from '#test/realtime-guest.ts'

let here: TestPlatform
let there: TestPlatform
let project: CreatedProject
before(async () => {
  here = await startPlatform()
  there = await startPlatform({ beside: here })
  project = await newProject()
})
afterEach(everybodyLeaves)
after(async () => {
  await there?.stop()
  await here?.stop()
})

const quotas = { rate_limit_anon: 0, rate_limit_service_role: 0 }
const newProject = () => here.projects.create({ body: { name: 'rooms', quotas } })
const newRoom = () => `room ${randomBytes(4).toString('hex')}`
const broadcast = (at: TestPlatform, body: object, path = 'api/broadcast') =>
  at.call('POST', `/v1/${project.id}/realtime/v1/${path}`, { apikey: project.service_role_key, body })

test('a broadcast reaches everybody in the room on both nodes, once, in order, and not who sent it', async () => {
  const room = newRoom()
  const [a, b] = [await enter(here, project, room), await enter(here, project, room)]
  const [c, d] = [await enter(there, project, room), await enter(there, project, room, { self: true })]
  for (let number = 0; number < 20; number++) assert.equal(await a.say('number', { number }), 'ok')
  // Between what two nodes say there is no order.
  await until('all are heard', async () => [b, c, d].every(({ heard }) => heard.length === 20))
  await d.say('end', { text: 'tèxt 日😀\0' })
  await hear([a, b, c, d], 'end')
  const numbers = Array.from({ length: 20 }, (_, number) => ['number', { number }])
  const end = ['end', { text: 'tèxt 日😀\0' }]
  assert.deepEqual(
    [a.heard, b.heard, c.heard, d.heard],
    [[end], [...numbers, end], [...numbers, end], [...numbers, end]],
  )
})

test('bytes reach the other node as they are', async () => {
  const room = newRoom()
  const [a, b] = [await enter(here, project, room), await enter(there, project, room)]
  const bytes = randomBytes(300_000)
  for (const each of [Buffer.alloc(0), Buffer.from([0, 255, 13, 10]), bytes]) {
    b.heard.length = 0
    const { buffer } = new Uint8Array(each)
    await a.say('bytes', buffer)
    await hear([b], 'bytes')
    assert.ok((b.heard[0]![1] as Buffer).equals(each))
  }
})

test('a private room and a public one of the same name are two rooms on every node', async () => {
  const room = newRoom()
  const [open, closed] = [
    await enter(here, project, room),
    await enter(there, project, room, { isPrivate: true }),
  ]
  const [others, members] = [
    await enter(there, project, room),
    await enter(here, project, room, { isPrivate: true }),
  ]
  await open.say('open', {})
  await closed.say('closed', {})
  await hear([others], 'open')
  await hear([members], 'closed')
  await open.say('end', {})
  await closed.say('end', {})
  await hear([others, members], 'end')
  const names = [others, members].map(({ heard }) => heard.map(([event]) => event))
  assert.deepEqual(names, [
    ['open', 'end'],
    ['closed', 'end'],
  ])
  assert.deepEqual([open.heard, closed.heard], [[], []])
})

test('what is broadcast over HTTP on one node reaches rooms on both, private ones apart', async () => {
  const room = newRoom()
  const open = [await enter(here, project, room), await enter(there, project, room)]
  const closed = [
    await enter(here, project, room, { isPrivate: true }),
    await enter(there, project, room, { isPrivate: true }),
  ]
  const messages = [
    { topic: room, event: 'first', payload: { a: 1 } },
    { topic: room, event: 'secret', payload: { b: 2 }, private: true },
    { topic: room, event: 'end', payload: {} },
    { topic: room, event: 'end', payload: {}, private: true },
  ]
  assert.equal((await broadcast(there, { messages })).status, 202)
  await hear([...open, ...closed], 'end')
  for (const { heard } of open)
    assert.deepEqual(heard, [
      ['first', { a: 1 }],
      ['end', {}],
    ])
  for (const { heard } of closed)
    assert.deepEqual(heard, [
      ['secret', { b: 2 }],
      ['end', {}],
    ])
})

test('a node without anybody of the project broadcasts over HTTP to those on the other', async () => {
  const room = newRoom()
  const b = await enter(there, project, room)
  const sent = await broadcast(here, { c: 3 }, `api/broadcast/${encodeURIComponent(room)}/events/alone`)
  assert.equal(sent.status, 202)
  await hear([b], 'alone')
  assert.deepEqual(b.heard, [['alone', { c: 3 }]])
})

test('who comes later sees who is there on the other node; who comes, changes and goes is seen by all', async () => {
  const room = newRoom()
  const a = await enter(here, project, room, { key: 'ada' })
  await a.track('glad')
  const b = await enter(there, project, room, { key: 'bob' })
  await see([a, b], ['ada:glad'])
  await b.track('calm')
  await see([a, b], ['ada:glad', 'bob:calm'])
  await a.track('tired')
  await see([a, b], ['ada:tired', 'bob:calm'])
  const c = await enter(there, project, room, { key: 'ada' })
  await c.track('awake')
  await see([a, b, c], ['ada:awake', 'ada:tired', 'bob:calm'])
  assert.equal(await a.channel.untrack(), 'ok')
  await see([a, b, c], ['ada:awake', 'bob:calm'])
  await b.leave()
  await see([a, c], ['ada:awake'])
  await c.leave()
  await see([a], [])
  // Each coming and going once, however many ways it came.
  const ofBob = a.comings.filter(each => each.includes('bob'))
  assert.deepEqual(ofBob, ['+bob:calm', '-bob:calm'])
})

test('the first on a node learns of everybody on the other, in each room and private ones apart', async () => {
  const own = await newProject()
  const rooms = Array.from({ length: 5 }, newRoom)
  for (const room of rooms)
    for (const isPrivate of [false, true]) {
      const guest = await enter(here, own, room, { key: room, isPrivate })
      await guest.track(isPrivate ? 'private' : 'public')
    }
  const [first] = rooms as [string]
  const open = await enter(there, own, first)
  const closed = await enter(there, own, first, { isPrivate: true })
  await see([open], [`${first}:public`])
  await see([closed], [`${first}:private`])
  const last = await enter(there, own, rooms[4]!)
  await see([last], [`${rooms[4]}:public`])
})

test('rooms of the same name in two projects hear and see nothing of each other', async () => {
  const other = await newProject()
  const room = newRoom()
  const [a, b] = [await enter(here, project, room, { key: 'ada' }), await enter(there, project, room)]
  const [x, y] = [await enter(here, other, room, { key: 'xenia' }), await enter(there, other, room)]
  await a.track('glad')
  await x.track('calm')
  await see([a, b], ['ada:glad'])
  await see([x, y], ['xenia:calm'])
  await a.say('of one', {})
  await x.say('of the other', {})
  await hear([b], 'of one')
  await hear([y], 'of the other')
  assert.deepEqual([b.heard.length, y.heard.length], [1, 1])
})

test('rows that change reach who listens on either node, once', async () => {
  const own = await newProject()
  const ref = await here.refOf(own.id)
  const script = (at: TestPlatform, text: string) =>
    at.app.databases.asOwner({ ref }, session => session.script(text).then(() => {}))
  await script(here, 'create table public.notes (id int primary key)')
  const guests = [
    await enter(here, own, newRoom(), { table: 'notes' }),
    await enter(there, own, newRoom(), { table: 'notes' }),
  ]
  await script(here, 'insert into public.notes values (1), (2)')
  await script(there, 'insert into public.notes values (3)')
  const expected = ['notes:1', 'notes:2', 'notes:3']
  await until('the rows come', async () => guests.every(({ rows }) => rows.includes('notes:3')))
  for (const { rows } of guests) assert.deepEqual(rows, expected)
})

test('what SQL sends reaches rooms on both nodes, once', async () => {
  const own = await newProject()
  const ref = await here.refOf(own.id)
  const room = newRoom()
  const guests = [
    await enter(here, own, room, { isPrivate: true }),
    await enter(there, own, room, { isPrivate: true }),
  ]
  const send = (event: string) =>
    here.app.databases.asOwner({ ref }, session =>
      session.script(`select realtime.send('{"a": 1}', '${event}', '${room}')`).then(() => {}),
    )
  await send('from SQL')
  await send('end')
  await hear(guests, 'end')
  for (const { heard } of guests)
    assert.deepEqual(
      heard.map(([event]) => event),
      ['from SQL', 'end'],
    )
})

test('a project that is suspended on one node is heard no more on either', async () => {
  const own = await newProject()
  const room = newRoom()
  const b = await enter(there, own, room)
  await here.projects.suspend({ params: { id: own.id } })
  await until('it is cut off', async () => !b.channel.socket.isConnected())
})

test('the Redis user of a project can neither speak nor listen on the channels between nodes', async () => {
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
