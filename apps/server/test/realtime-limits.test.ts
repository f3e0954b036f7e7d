// Limits on sockets, channels and requests, and the errors for exceeding them.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { broadcast, RawSocket, refused, socketUrl } from './realtime-raw.ts'
import { projectDatabase } from './realtime-subscriber.ts'

let platform: TestPlatform
before(async () => {
  platform = await startPlatform()
})
after(() => platform.stop())

const projectWith = (quotas: Record<string, number>): Promise<CreatedProject> =>
  platform.projects.create({ body: { name: `limits ${Math.random()}`, quotas } })

test('realtime limits: sockets above the quota get 429, and a closed one frees a place', async () => {
  const project = await projectWith({ realtime_max_clients: 2 })
  const sockets = await Promise.all([RawSocket.open(platform, project), RawSocket.open(platform, project)])
  assert.equal(await refused(socketUrl(platform, project)), 429)
  await sockets[0].settled()
  await sockets[0].close()
  const third = await RawSocket.open(platform, project)
  for (const socket of [sockets[1], third]) await socket.close()
})

test('realtime limits: concurrent handshakes cannot exceed the quota', async () => {
  const project = await projectWith({ realtime_max_clients: 5 })
  const attempts = await Promise.allSettled(
    Array.from({ length: 20 }, () => RawSocket.open(platform, project)),
  )
  const opened = attempts.filter(each => each.status === 'fulfilled').map(({ value }) => value)
  assert.equal(opened.length, 5)
  for (const socket of opened) await socket.close()
})

test('realtime limits: a socket has at most 100 channels, and leaving one frees a place', async () => {
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

test('realtime limits: exceeding the message rate closes the sending channel with an error code', async () => {
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
  const delivered = calm.frames.filter(([, , , event]) => event === 'broadcast').length
  assert.ok(delivered >= 15 && delivered <= 25, `${delivered} of 60 were delivered`)
  assert.ok(!calm.frames.some(([, , , event]) => event === 'phx_close'))
  for (const socket of [flood, calm]) await socket.close()
})

test('realtime limits: joins above the rate of the project are rejected with an error code', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  await socket.join('realtime:first')
  const refs = Array.from({ length: 4000 }, (_, at) =>
    socket.push(`realtime:${at % 50}`, 'phx_join', { config: {} }),
  )
  await socket.answer(refs.at(-1)!)
  const reasons = socket.frames
    .filter(frame => frame[4].status === 'error')
    .map(frame => frame[4].response.reason)
  assert.ok(reasons.length > 0)
  assert.ok(reasons.every(reason => reason.startsWith('ClientJoinRateLimitReached: ')))
  await socket.close()
})

test('realtime limits: a payload or event that is too long is rejected in the reply with ack, in a system message without', async () => {
  const project = await projectWith({})
  const [asking, other] = [await RawSocket.open(platform, project), await RawSocket.open(platform, project)]
  await asking.join('realtime:long', { broadcast: { ack: true } })
  await other.join('realtime:long')
  const large = broadcast('realtime:long', 'large', 'x'.repeat(3_000_000))
  const rejected = await asking.ask('realtime:long', 'broadcast', large[4])
  assert.deepEqual(
    [rejected.status, rejected.response.reason.split(':')[0]],
    ['error', 'PayloadSizeExceeded'],
  )
  const named = await asking.ask('realtime:long', 'broadcast', broadcast('', 'é'.repeat(128), 1)[4])
  assert.equal(named.response.reason.split(':')[0], 'EventNameTooLong')
  other.send(large)
  assert.equal((await other.event('realtime:long', 'system'))[4].message.split(':')[0], 'PayloadSizeExceeded')
  const fitting = broadcast('realtime:long', 'fits', 'x'.repeat(2_999_998))
  assert.equal((await asking.ask('realtime:long', 'broadcast', fitting[4])).status, 'ok')
  const [, , , , received] = await other.event('realtime:long', 'broadcast')
  assert.deepEqual([received.event, received.payload.length], ['fits', 2_999_998])
  for (const socket of [asking, other]) await socket.close()
})

test('realtime limits: a channel may track 5 times in 30 seconds, and untrack any time', async () => {
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

test('realtime limits: a channel has at most 100 bindings', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  const bindings = Array.from({ length: 101 }, (_, at) => ({ event: '*', schema: 'public', table: `t${at}` }))
  const { status, response } = await socket.ask('realtime:bindings', 'phx_join', {
    config: { postgres_changes: bindings },
  })
  assert.deepEqual([status, response.reason.split(':')[0]], ['error', 'TooManyBindings'])
  await socket.close()
})

test('realtime limits: a socket has at most 1000 bindings on all its channels', async () => {
  const project = await projectWith({})
  const socket = await RawSocket.open(platform, project)
  const bindings = Array.from({ length: 100 }, (_, at) => ({ event: '*', schema: 'public', table: `t${at}` }))
  for (let at = 0; at < 10; at++) await socket.join(`realtime:${at}`, { postgres_changes: bindings })
  const { status, response } = await socket.ask('realtime:more', 'phx_join', {
    config: { postgres_changes: bindings.slice(0, 1) },
  })
  assert.deepEqual([status, response.reason.split(':')[0]], ['error', 'TooManyBindings'])
  await socket.join('realtime:unbound')
  await socket.ask('realtime:7', 'phx_leave', {})
  await socket.join('realtime:more', { postgres_changes: bindings })
  await socket.close()
})

test('realtime limits: each message of a REST broadcast counts', async () => {
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

test('realtime limits: presence keys and tracked payloads have a size limit', async () => {
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

/** Makes policy checks on private topics take this long. */
async function slowProject(seconds: number): Promise<CreatedProject> {
  const project = await projectWith({})
  const database = await projectDatabase(platform, project)
  await database.run(`
    create policy slowly on realtime.messages using (pg_sleep(${seconds}) is not null) with check (true)`)
  return project
}

const posting = (
  project: CreatedProject,
  messages: unknown[],
  signal: AbortSignal = AbortSignal.timeout(60_000),
) =>
  fetch(`${platform.url}/v1/realtime/${project.id}/api/broadcast`, {
    method: 'POST',
    headers: { apikey: project.anon_key, 'content-type': 'application/json' },
    body: JSON.stringify({ messages }),
    signal,
  })

test('realtime limits: a REST request has at most 1000 messages, with one policy check per topic', async () => {
  const project = await slowProject(0.2)
  const message = { topic: 'room', event: 'e', payload: 1, private: true }
  assert.equal((await posting(project, Array(1000).fill(message))).status, 202)
  const tooMany = await posting(project, Array(1001).fill(message))
  assert.equal(tooMany.status, 422)
  const { errors } = (await tooMany.json()) as { errors: unknown }
  assert.deepEqual(errors, { messages: ['should have at most 1000 item(s)'] })
})

test('realtime limits: an aborted REST request sends no further messages', async () => {
  const project = await slowProject(0.1)
  const socket = await RawSocket.open(platform, project)
  await socket.join('realtime:room')
  const slow = Array.from({ length: 10 }, (_, at) => ({
    topic: `slow ${at}`,
    event: 'e',
    payload: 1,
    private: true,
  }))
  const messages = (payload: string) => {
    const message = { topic: 'room', event: 'e', payload }
    return [message, ...slow, message]
  }
  const hangUp = new AbortController()
  const posted = posting(project, messages('first'), hangUp.signal)
  await socket.event('realtime:room', 'broadcast')
  hangUp.abort()
  await assert.rejects(posted, { name: 'AbortError' })
  // The aborted request would have been handled before this later one.
  assert.equal((await posting(project, messages('second'))).status, 202)
  await socket.settled()
  const received = socket.frames
    .filter(([, , , event]) => event === 'broadcast')
    .map(frame => frame[4].payload)
  assert.deepEqual(received, ['second', 'second'])
  await socket.close()
})

test('realtime limits: the presence of a topic has a size limit, and leaving frees room', async () => {
  const project = await projectWith({})
  const open = async (key: string) => {
    const socket = await RawSocket.open(platform, project)
    await socket.join('realtime:full', { presence: { key, enabled: false } })
    const track = (text: string) =>
      socket.ask('realtime:full', 'presence', { event: 'track', payload: { text } })
    return { socket, track }
  }
  const last = await open('last')
  assert.equal((await last.track('small')).status, 'ok')
  const others = await Promise.all(Array.from({ length: 16 }, (_, at) => open(`k${at}`)))
  const large = 'x'.repeat(65_000)
  for (const { track } of others) assert.equal((await track(large)).status, 'ok')
  const { status, response } = await last.track(large)
  assert.deepEqual([status, response.reason.split(':')[0]], ['error', 'PresenceTooLarge'])
  const member = await RawSocket.open(platform, project)
  await member.join('realtime:full', { presence: { enabled: true } })
  const [, , , , state] = await member.event('realtime:full', 'presence_state')
  assert.deepEqual([Object.keys(state).length, state.last.metas[0].text], [17, 'small'])
  await others[0]!.socket.close()
  await member.event('realtime:full', 'presence_diff')
  assert.equal((await last.track(large)).status, 'ok')
  for (const { socket } of [last, ...others.slice(1)]) await socket.close()
  await member.close()
})

test('realtime limits: frames sent before the policy check are queued by back-pressure, and none is lost', async () => {
  const project = await slowProject(0.4)
  const socket = await RawSocket.open(platform, project)
  const join = socket.push('realtime:room', 'phx_join', {
    config: { private: true, broadcast: { ack: true } },
  })
  const [, , , , large] = broadcast('', 'e', 'x'.repeat(1_000_000))
  const refs = Array.from({ length: 50 }, () => socket.push('realtime:room', 'broadcast', large))
  let leastWaiting = Number.POSITIVE_INFINITY
  const looking = setInterval(() => {
    leastWaiting = Math.min(leastWaiting, socket.connection.bufferedAmount)
  }, 5)
  const { status } = await socket.answer(join)
  clearInterval(looking)
  assert.equal(status, 'ok')
  assert.ok(leastWaiting > 20_000_000, `only ${leastWaiting} bytes wait`)
  for (const ref of refs) assert.equal((await socket.answer(ref)).status, 'ok')
  await socket.close()
})

test('realtime limits: thousands of messages at once are answered in order, and another socket is still served', async () => {
  const project = await projectWith({})
  const [many, other] = [await RawSocket.open(platform, project), await RawSocket.open(platform, project)]
  const refs = Array.from({ length: 20_000 }, () => many.push('phoenix', 'heartbeat', {}))
  // Large enough to be decoded in slices: later frames wait for it.
  const large = many.push('phoenix', 'heartbeat', 'x'.repeat(200_000))
  const last = many.push('phoenix', 'heartbeat', {})
  await other.settled()
  await many.next(frame => frame[1] === last, 'the last answer')
  const answered = many.frames.filter(frame => frame[3] === 'phx_reply').map(([, ref]) => ref)
  assert.deepEqual(answered, [...refs, large])
  for (const socket of [many, other]) await socket.close()
})
