// How much may be done on sockets, and how it is said that it was too much.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { broadcast, RawSocket, refused, socketUrl } from './realtime-raw.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const projectWith = (quotas: Record<string, number>): Promise<CreatedProject> =>
  platform.projects.create({ body: { name: `limits ${Math.random()}`, quotas } })

test('sockets beyond the quota are refused with 429, and one that closes makes room', async () => {
  const project = await projectWith({ realtime_max_clients: 2 })
  const sockets = await Promise.all([RawSocket.open(platform, project), RawSocket.open(platform, project)])
  assert.equal(await refused(socketUrl(platform, project)), 429)
  await sockets[0].settled()
  await sockets[0].close()
  const third = await RawSocket.open(platform, project)
  for (const socket of [sockets[1], third]) await socket.close()
})

test('many who come at once are counted one by one', async () => {
  const project = await projectWith({ realtime_max_clients: 5 })
  const tried = await Promise.allSettled(Array.from({ length: 20 }, () => RawSocket.open(platform, project)))
  const opened = tried.filter(each => each.status === 'fulfilled').map(({ value }) => value)
  assert.equal(opened.length, 5)
  for (const socket of opened) await socket.close()
})

test('a socket has a hundred channels, and another when one is left', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  for (let at = 0; at < 100; at++) await socket.join(`realtime:${at}`)
  const { status, response } = await socket.ask('realtime:more', 'phx_join', { config: {} })
  assert.deepEqual([status, response.reason.split(':')[0]], ['error', 'ChannelRateLimitReached'])
  await socket.join('realtime:7')
  await socket.ask('realtime:7', 'phx_leave', {})
  await socket.join('realtime:more')
  await socket.close()
})

test('more messages a second than the quota close the channel that sent them, with its name', async () => {
  const project = await projectWith({ realtime_max_events_per_second: 20 })
  const [flood, calm] = [await RawSocket.open(platform, project), await RawSocket.open(platform, project)]
  await flood.join('realtime:flood')
  await calm.join('realtime:flood')
  for (let at = 0; at < 60; at++) flood.send(broadcast('realtime:flood', 'drop', at))
  const [, , , , { extension, status, message }] = await flood.event('realtime:flood', 'system')
  assert.deepEqual(
    [extension, status, message.split(':')[0]],
    ['system', 'error', 'MessagesPerSecondReached'],
  )
  await flood.event('realtime:flood', 'phx_close')
  await flood.settled()
  await calm.settled()
  const heard = calm.frames.filter(([, , , event]) => event === 'broadcast').length
  assert.ok(heard >= 15 && heard <= 25, `${heard} of 60 were passed on`)
  assert.ok(!calm.frames.some(([, , , event]) => event === 'phx_close'))
  for (const socket of [flood, calm]) await socket.close()
})

test('joins beyond what a project may do in a second are refused with their name', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  const refs = Array.from({ length: 1600 }, (_, at) =>
    socket.push(`realtime:${at % 50}`, 'phx_join', { config: {} }),
  )
  assert.equal((await socket.answer(refs[0]!)).status, 'ok')
  await socket.answer(refs.at(-1)!)
  const reasons = socket.frames
    .filter(frame => frame[4].status === 'error')
    .map(frame => frame[4].response.reason)
  assert.ok(reasons.length > 50, `${reasons.length} were refused`)
  assert.ok(reasons.every(reason => reason.startsWith('ClientJoinRateLimitReached: ')))
  await socket.close()
})

test('a payload or an event that is too long is refused: in the answer where one is awaited, as a system message where not', async () => {
  const project = await projectWith({})
  const [asking, other] = [await RawSocket.open(platform, project), await RawSocket.open(platform, project)]
  await asking.join('realtime:long', { broadcast: { ack: true } })
  await other.join('realtime:long')
  const large = broadcast('realtime:long', 'large', 'x'.repeat(3_000_000))
  const refusal = await asking.ask('realtime:long', 'broadcast', large[4])
  assert.deepEqual([refusal.status, refusal.response.reason.split(':')[0]], ['error', 'PayloadSizeExceeded'])
  const named = await asking.ask('realtime:long', 'broadcast', broadcast('', 'é'.repeat(128), 1)[4])
  assert.equal(named.response.reason.split(':')[0], 'EventNameTooLong')
  other.send(large)
  assert.equal((await other.event('realtime:long', 'system'))[4].message.split(':')[0], 'PayloadSizeExceeded')
  const fitting = broadcast('realtime:long', 'fits', 'x'.repeat(2_999_998))
  assert.equal((await asking.ask('realtime:long', 'broadcast', fitting[4])).status, 'ok')
  const [, , , , heard] = await other.event('realtime:long', 'broadcast')
  assert.deepEqual([heard.event, heard.payload.length], ['fits', 2_999_998])
  for (const socket of [asking, other]) await socket.close()
})

test('a channel tracks five times in thirty seconds; it may always untrack', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  await socket.join('realtime:busy', { presence: { key: 'k', enabled: true } })
  const track = (at: number) => socket.ask('realtime:busy', 'presence', { event: 'track', payload: { at } })
  for (let at = 0; at < 5; at++) assert.equal((await track(at)).status, 'ok')
  const { status, response } = await track(5)
  assert.deepEqual([status, response.reason.split(':')[0]], ['error', 'ClientPresenceRateLimitReached'])
  assert.equal((await socket.ask('realtime:busy', 'presence', { event: 'untrack' })).status, 'ok')
  await socket.close()
})

test('a hundred wishes fit into a channel, and no more', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  const wishes = Array.from({ length: 101 }, (_, at) => ({ event: '*', schema: 'public', table: `t${at}` }))
  const { status, response } = await socket.ask('realtime:wishes', 'phx_join', {
    config: { postgres_changes: wishes },
  })
  assert.deepEqual([status, response.reason.split(':')[0]], ['error', 'TooManyBindings'])
  await socket.close()
})

test('a REST broadcast counts by the message', async () => {
  const project = await projectWith({ realtime_max_events_per_second: 10 })
  const socket = await RawSocket.open(platform, project)
  const messages = Array.from({ length: 30 }, (_, at) => ({ topic: 'room', event: 'e', payload: at }))
  const { status, headers } = await platform.call('POST', `/v1/realtime/${project.id}/api/broadcast`, {
    apikey: project.anon_key,
    body: { messages },
  })
  assert.deepEqual([status, headers.get('retry-after')], [429, '1'])
  await socket.close()
})

test('what is tracked is kept and told to everybody who comes: it is short', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  await socket.join('realtime:heavy', { presence: { key: 'k', enabled: true } })
  const track = (text: string) =>
    socket.ask('realtime:heavy', 'presence', { event: 'track', payload: { text } })
  const { status, response } = await track('x'.repeat(65_536))
  assert.deepEqual([status, response.reason.split(':')[0]], ['error', 'PayloadSizeExceeded'])
  assert.equal((await track('x'.repeat(65_000))).status, 'ok')
  const long = await socket.ask('realtime:keyed', 'phx_join', {
    config: { presence: { key: 'k'.repeat(256) } },
  })
  assert.equal(long.response.reason.split(':')[0], 'PresenceKeyTooLong')
  await socket.close()
})
