// Edge cases of presence: order of state and diffs, dropped connections, unusual names.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { RawSocket } from './realtime-raw.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
})
after(() => platform.stop())

const open = () => RawSocket.open(platform, project)
const present = (key: string) => ({ presence: { key, enabled: true } })
const track = (socket: RawSocket, topic: string, payload: unknown) =>
  socket.ask(topic, 'presence', { type: 'presence', event: 'track', payload })
const refOf = (metas: { phx_ref: string }[]) => metas.map(({ phx_ref }) => phx_ref)

test('presence: tracking again is one diff with a join and a leave, and tracking the same payload sends nothing', async () => {
  const topic = 'realtime:again'
  const socket = await open()
  await socket.join(topic, present('k'))
  await socket.event(topic, 'presence_state')
  await track(socket, topic, { mood: 'good' })
  const [, , , , first] = await socket.event(topic, 'presence_diff')
  await track(socket, topic, { mood: 'bad' })
  const [, , , , second] = await socket.event(topic, 'presence_diff')
  assert.deepEqual(refOf(second.leaves.k.metas), refOf(first.joins.k.metas))
  assert.deepEqual(second.joins.k.metas[0].phx_ref_prev, first.joins.k.metas[0].phx_ref)
  assert.equal(second.joins.k.metas[0].mood, 'bad')
  assert.equal((await track(socket, topic, { mood: 'bad' })).status, 'ok')
  await socket.settled()
  assert.deepEqual(
    socket.frames.map(frame => frame[3]),
    [],
  )
  await socket.close()
})

test('presence: a new member gets the state, and no diff repeats it', async () => {
  const topic = 'realtime:arrival'
  const [early, late] = [await open(), await open()]
  await early.join(topic, present('early'))
  // Both in one write: the diff of the first is still pending when the second is handled.
  early.push(topic, 'presence', { event: 'track', payload: { n: 1 } })
  await late.join(topic, present('late'))
  const [, , , , state] = await late.event(topic, 'presence_state')
  await early.settled()
  await late.settled()
  const diffs = late.frames.filter(frame => frame[3] === 'presence_diff')
  assert.equal(Object.keys(state).length + diffs.length, 1, JSON.stringify([state, diffs]))
  for (const socket of [early, late]) await socket.close()
})

test('presence: a dropped connection leaves, also if others share its key', async () => {
  const topic = 'realtime:cut'
  const [observer, one, two] = [await open(), await open(), await open()]
  await observer.join(topic, present('w'))
  for (const socket of [one, two]) {
    await socket.join(topic, present('same'))
    await track(socket, topic, {})
    await observer.event(topic, 'presence_diff')
  }
  one.connection.terminate()
  const [, , , , { joins, leaves }] = await observer.event(topic, 'presence_diff')
  assert.deepEqual([joins, leaves.same.metas.length], [{}, 1])
  const newcomer = await open()
  await newcomer.join(topic, present(''))
  assert.equal((await newcomer.event(topic, 'presence_state'))[4].same.metas.length, 1)
  await two.ask(topic, 'phx_leave', {})
  assert.equal((await observer.event(topic, 'presence_diff'))[4].leaves.same.metas.length, 1)
  for (const socket of [observer, two, newcomer]) await socket.close()
})

test('presence: keys and payloads may have any name, and large numbers keep their digits', async () => {
  const topic = 'realtime:names'
  const [socket, other] = [await open(), await open()]
  await socket.join(topic, present('__proto__'))
  await other.join(topic, present('constructor'))
  const texts: string[] = []
  other.connection.on('message', data => texts.push(String(data)))
  socket.send(
    `[null,"t","${topic}","presence",{"event":"track","payload":{"__proto__":{"admin":true},"n":12345678901234567890,"phx_ref":"mine"}}]`,
  )
  assert.equal((await socket.answer('t')).status, 'ok')
  await other.event(topic, 'presence_diff')
  const diff = texts.find(text => text.includes('presence_diff'))!
  assert.match(diff, /"__proto__":\{"metas":\[\{"__proto__":\{"admin":true\},"n":12345678901234567890,/)
  // Of duplicate JSON keys the last one wins.
  assert.match(diff, /"phx_ref":"mine","phx_ref":"[\w-]{12}"\}\]\}\},"leaves":\{\}\}\]$/)
  assert.equal(({} as { admin?: boolean }).admin, undefined)
  for (const each of [socket, other]) await each.close()
})

test('presence: the first track enables presence and sends the state', async () => {
  const topic = 'realtime:unasked'
  const [there, unasked] = [await open(), await open()]
  await there.join(topic, present('there'))
  await track(there, topic, {})
  await unasked.join(topic, { presence: { key: 'new', enabled: false } })
  await unasked.settled()
  assert.deepEqual(unasked.frames, [])
  await track(unasked, topic, {})
  assert.deepEqual(Object.keys((await unasked.event(topic, 'presence_state'))[4]), ['there'])
  assert.deepEqual(Object.keys((await unasked.event(topic, 'presence_diff'))[4].joins), ['new'])
  for (const socket of [there, unasked]) await socket.close()
})

test('presence: an empty topic keeps no state', async () => {
  const topic = 'realtime:empty'
  for (let round = 0; round < 2; round++) {
    const socket = await open()
    await socket.join(topic, present('k'))
    assert.deepEqual((await socket.event(topic, 'presence_state'))[4], {})
    await track(socket, topic, { round })
    await socket.close()
  }
})
