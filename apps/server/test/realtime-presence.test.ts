// Presence where it is easily wrong: what is told when, to whom, and what names may be.
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

test('whoever tracks again is told as joining and leaving in one diff; the same again is nothing new', async () => {
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

test('who arrives is told the state, and of nobody in it a second time', async () => {
  const topic = 'realtime:arrival'
  const [early, late] = [await open(), await open()]
  await early.join(topic, present('early'))
  // Both in one write: what the first has changed is not told yet when the second comes.
  early.push(topic, 'presence', { event: 'track', payload: { n: 1 } })
  await late.join(topic, present('late'))
  const [, , , , state] = await late.event(topic, 'presence_state')
  await early.settled()
  await late.settled()
  const diffs = late.frames.filter(frame => frame[3] === 'presence_diff')
  assert.equal(Object.keys(state).length + diffs.length, 1, JSON.stringify([state, diffs]))
  for (const socket of [early, late]) await socket.close()
})

test('one who is cut off leaves, and so does each of several under one key', async () => {
  const topic = 'realtime:cut'
  const [witness, one, two] = [await open(), await open(), await open()]
  await witness.join(topic, present('w'))
  for (const socket of [one, two]) {
    await socket.join(topic, present('same'))
    await track(socket, topic, {})
    await witness.event(topic, 'presence_diff')
  }
  one.connection.terminate()
  const [, , , , { joins, leaves }] = await witness.event(topic, 'presence_diff')
  assert.deepEqual([joins, leaves.same.metas.length], [{}, 1])
  const newcomer = await open()
  await newcomer.join(topic, present(''))
  assert.equal((await newcomer.event(topic, 'presence_state'))[4].same.metas.length, 1)
  await two.ask(topic, 'phx_leave', {})
  assert.equal((await witness.event(topic, 'presence_diff'))[4].leaves.same.metas.length, 1)
  for (const socket of [witness, two, newcomer]) await socket.close()
})

test('a key and what is tracked may have any name, and large numbers keep their digits', async () => {
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
  const told = texts.find(text => text.includes('presence_diff'))!
  assert.match(told, /"__proto__":\{"metas":\[\{"__proto__":\{"admin":true\},"n":12345678901234567890,/)
  // The last one of a name counts.
  assert.match(told, /"phx_ref":"mine","phx_ref":"[\w-]{12}"\}\]\}\},"leaves":\{\}\}\]$/)
  assert.equal(({} as { admin?: boolean }).admin, undefined)
  for (const each of [socket, other]) await each.close()
})

test('the first track of a channel that asked for no presence tells it who is there', async () => {
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

test('of a topic nobody is on any more, nothing is left', async () => {
  const topic = 'realtime:empty'
  for (let round = 0; round < 2; round++) {
    const socket = await open()
    await socket.join(topic, present('k'))
    assert.deepEqual((await socket.event(topic, 'presence_state'))[4], {})
    await track(socket, topic, { round })
    await socket.close()
  }
})
