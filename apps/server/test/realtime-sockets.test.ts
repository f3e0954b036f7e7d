// Sockets when something changes around them: the project, its keys, the platform; and what is not what it seems.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { until } from './cache-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { promptly } from './promptly.ts'
import { behind } from './realtime-listener.ts'
import { broadcast, RawSocket, refused, socketUrl } from './realtime-raw.ts'
import { authProject } from './signed-up.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
})
after(() => platform.stop())

const user = ({ jwt_secret: secret }: CreatedProject, claims: object = {}) =>
  signJwt({ role: 'authenticated', sub: crypto.randomUUID(), ...claims }, secret)
const inSeconds = (seconds: number) => Math.floor(Date.now() / 1000) + seconds

/** A request as bytes, and all that comes back. */
async function spoken(lines: string[]): Promise<string> {
  const { hostname, port } = new URL(platform.url)
  const socket = connect(Number(port), hostname)
  socket.setTimeout(60_000, () => socket.destroy(new Error('nothing came back')))
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  let answer = ''
  socket.on('data', chunk => (answer += chunk))
  await once(socket, 'close')
  return answer
}

test('a suspended project closes its sockets within a second, and opens none until it is resumed', async () => {
  const own = await platform.createProject()
  await promptly(1000, async () => {
    const socket = await RawSocket.open(platform, own)
    await socket.join('realtime:room')
    const neighbour = await RawSocket.open(platform, project)
    await platform.projects.suspend({ params: { id: own.id } })
    const suspendedAt = performance.now()
    assert.deepEqual(await socket.end(), { code: 1008, reason: 'the project is suspended' })
    const ms = performance.now() - suspendedAt
    assert.equal(await refused(socketUrl(platform, own)), 403)
    await neighbour.settled()
    await neighbour.close()
    await platform.projects.resume({ params: { id: own.id } })
    await (await RawSocket.open(platform, own)).close()
    return ms
  })
})

test('a deleted project closes its sockets, and is unknown from then on', async () => {
  const own = await platform.createProject()
  const socket = await RawSocket.open(platform, own)
  await platform.projects.remove({ params: { id: own.id } })
  assert.deepEqual(await socket.end(), { code: 1008, reason: 'the project is gone' })
  assert.equal(await refused(socketUrl(platform, own)), 401)
})

test('rotated keys close the sockets they opened, another secret those that users opened', async () => {
  const own = await platform.createProject()
  const keys = [own.anon_key, own.service_role_key, user(own)]
  const [anon, service, signedIn] = await Promise.all(keys.map(key => RawSocket.open(platform, own, key)))
  await anon!.join('realtime:mine', {}, { access_token: user(own) })
  await platform.projects.rotateJwtSecret({ params: { id: own.id } })
  assert.equal((await signedIn!.end()).code, 1008)
  const [, , , , { message }] = await anon!.event('realtime:mine', 'system')
  assert.match(message, /^JwtSignatureError: /)
  await anon!.event('realtime:mine', 'phx_close')
  await service!.settled()
  await platform.projects.rotateApiKeys({ params: { id: own.id } })
  for (const socket of [anon!, service!])
    assert.deepEqual(await socket.end(), {
      code: 1008,
      reason: 'the credential of this socket no longer counts',
    })
})

test('a token that loses its secret while it is judged counts for nothing', async () => {
  const own = await platform.createProject()
  const database = await behind(platform, own)
  await database.run(`
    create policy slowly on realtime.messages for select using (auth.uid() is null or pg_sleep(0.25) is not null)`)
  const socket = await RawSocket.open(platform, own)
  const joinRef = await socket.join('realtime:mine', { private: true })
  socket.push('realtime:mine', 'access_token', { access_token: user(own) }, joinRef)
  await until('the policy is asked', async () => {
    const asking = await database.look("select 1 from pg_stat_activity where wait_event = 'PgSleep'")
    return asking.length > 0
  })
  await platform.projects.rotateJwtSecret({ params: { id: own.id } })
  const [, , , , { message }] = await socket.event('realtime:mine', 'system')
  assert.match(message, /^JwtSignatureError: /)
  await socket.event('realtime:mine', 'phx_close')
  await socket.close()
})

test('changed settings change nothing for those who are connected', async () => {
  const socket = await RawSocket.open(platform, project)
  const joinRef = await socket.join('realtime:calm')
  await platform.projects.update({ params: { id: project.id }, body: { settings: { note: 'new' } } })
  await platform.call('GET', `/v1/rest/${project.id}/`, { apikey: project.anon_key })
  await socket.settled()
  assert.deepEqual(await socket.ask('realtime:calm', 'phx_leave', {}), { status: 'ok', response: {} })
  assert.equal((await socket.event('realtime:calm', 'phx_close'))[0], joinRef)
  await socket.close()
})

test('a session that ends takes its channels with it within a second, and those alone', async () => {
  const own = await authProject(platform)
  let attempts = 0
  await promptly(1500, async () => {
    const [ann, bob] = [
      await own.signUp(`ann${attempts++}@example.com`),
      await own.signUp(`bob${attempts}@example.com`),
    ]
    const socket = await RawSocket.open(platform, own)
    await socket.join('realtime:ann', {}, { access_token: ann.access_token })
    await socket.join('realtime:bob', {}, { access_token: bob.access_token })
    assert.equal((await own.asUser(ann.access_token, 'POST', '/logout?scope=global')).status, 204)
    const endedAt = performance.now()
    const [, , , , { status, message }] = await socket.event('realtime:ann', 'system')
    assert.deepEqual([status, message], ['error', 'InvalidJWTToken: Token has been revoked'])
    await socket.event('realtime:ann', 'phx_close')
    const ms = performance.now() - endedAt
    await socket.settled()
    assert.ok(!socket.frames.some(([, , topic]) => topic === 'realtime:bob'))
    const { response } = await socket.ask('realtime:ann', 'phx_join', {
      config: {},
      access_token: ann.access_token,
    })
    assert.match(response.reason, /^InvalidJWTToken: /)
    await socket.close()
    return ms
  })
})

test('a socket that outlives its own token joins nothing by it', async () => {
  const socket = await RawSocket.open(platform, project, user(project, { exp: inSeconds(2) }))
  await socket.join('realtime:short')
  await socket.event('realtime:short', 'phx_close')
  const { status, response } = await socket.ask('realtime:short', 'phx_join', { config: {} })
  assert.deepEqual([status, response.reason], ['error', 'InvalidJWTToken: Token has expired'])
  await socket.join('realtime:short', {}, { access_token: user(project) })
  await socket.close()
})

test('what is sent right behind a join or a token waits until that is judged', async () => {
  const [speaker, listener] = [
    await RawSocket.open(platform, project),
    await RawSocket.open(platform, project),
  ]
  await listener.join('realtime:queue')
  const joinRef = speaker.push('realtime:queue', 'phx_join', { config: {}, access_token: user(project) })
  speaker.send(broadcast('realtime:queue', 'one', 1))
  speaker.push('realtime:queue', 'access_token', { access_token: user(project) }, joinRef)
  speaker.send(broadcast('realtime:queue', 'two', 2))
  speaker.push('realtime:queue', 'access_token', { access_token: 'no token' }, joinRef)
  speaker.send(broadcast('realtime:queue', 'three', 3))
  await speaker.event('realtime:queue', 'phx_close')
  await speaker.settled()
  await listener.settled()
  const heard = listener.frames.filter(frame => frame[3] === 'broadcast').map(frame => frame[4].event)
  assert.deepEqual(heard, ['one', 'two'])
  assert.deepEqual((await speaker.ask('realtime:queue', 'broadcast', {})).response, {
    reason: 'unmatched topic',
  })
  for (const socket of [speaker, listener]) await socket.close()
})

test('a large message keeps its place among small ones', async () => {
  const [speaker, listener] = [
    await RawSocket.open(platform, project),
    await RawSocket.open(platform, project),
  ]
  for (const socket of [speaker, listener])
    assert.equal((await socket.ask('realtime:sizes', 'phx_join', { config: {} })).status, 'ok')
  const texts = ['a', 'b'.repeat(300_000), 'c', `\u00e9${'\n'.repeat(200_000)}`, 'd']
  for (const payload of texts)
    speaker.push('realtime:sizes', 'broadcast', { event: 'e', payload: { payload } })
  const bytes = Buffer.concat([
    Buffer.from([3, 0, 0, 14, 1, 0, 1]),
    Buffer.from('realtime:sizesb'),
    Buffer.from(JSON.stringify({ payload: 'f'.repeat(100_000) })),
  ])
  speaker.send(bytes)
  speaker.push('realtime:sizes', 'broadcast', { event: 'e', payload: { payload: 'g' } })
  const heard: string[] = []
  while (heard.at(-1) !== 'g')
    heard.push((await listener.event('realtime:sizes', 'broadcast'))[4].payload.payload)
  assert.deepEqual(heard, [...texts, 'f'.repeat(100_000), 'g'])
  // The frames that wait for a large one go with their socket.
  for (let count = 0; count < 20; count++)
    speaker.push('realtime:sizes', 'broadcast', { event: 'e', payload: texts[1] })
  speaker.connection.terminate()
  await listener.settled()
  await listener.close()
})

test('a channel that is left before its join is judged is never joined', async () => {
  const socket = await RawSocket.open(platform, project)
  socket.push('realtime:hasty', 'phx_join', { config: {}, access_token: user(project) })
  assert.equal((await socket.ask('realtime:hasty', 'phx_leave', {})).status, 'ok')
  await socket.settled()
  assert.equal((await socket.ask('realtime:hasty', 'broadcast', {})).response.reason, 'unmatched topic')
  assert.deepEqual(
    socket.frames.map(([, , topic, event]) => [topic, event]),
    [['realtime:hasty', 'phx_close']],
  )
  await socket.close()
})

const nonsense: [string, string | Buffer, number][] = [
  ['no JSON', '{', 1003],
  ['an array of something else', '[1,2,3]', 1003],
  ['bytes of another kind', Buffer.from([9, 9, 9]), 1003],
  ['lengths past the end', Buffer.from([3, 200, 200, 200, 200, 200, 1]), 1003],
  ['a message without end', Buffer.alloc(4_100_000), 1009],
  [
    'a join of more values than anybody needs',
    `[null,"1","realtime:x","phx_join",{"a":[${'1,'.repeat(50_000)}1]}]`,
    1003,
  ],
  [
    'a broadcast of a million values',
    `[null,"1","realtime:x","broadcast",{"event":"e","payload":[${'[],'.repeat(1_000_000)}1]}]`,
    1003,
  ],
]
for (const [what, data, code] of nonsense)
  test(`${what} ends the socket with a reason, and nothing else`, async () => {
    const [socket, other] = [await RawSocket.open(platform, project), await RawSocket.open(platform, project)]
    socket.send(data)
    const ended = await socket.end()
    assert.equal(ended.code, code)
    if (code === 1003) assert.match(ended.reason, /^malformed: /)
    await other.settled()
    await other.close()
  })

test('nested brackets, prototypes and joins of any shape end nothing', async () => {
  const socket = await RawSocket.open(platform, project)
  const deep = '['.repeat(20_000) + ']'.repeat(20_000)
  socket.send(
    `[null,"d","realtime:deep","phx_join",{"config":{"postgres_changes":[${deep}],"presence":${deep}}}]`,
  )
  assert.equal((await socket.answer('d')).status, 'ok')
  socket.send(
    '["p","p","realtime:__proto__","phx_join",{"__proto__":{"config":{"private":true}},"config":{"__proto__":1}}]',
  )
  assert.equal((await socket.answer('p')).status, 'ok')
  for (const payload of [
    null,
    1,
    'text',
    [],
    { config: [] },
    { config: { broadcast: 'x', postgres_changes: 7 } },
  ])
    assert.equal((await socket.ask('realtime:odd', 'phx_join', payload)).status, 'ok')
  for (const payload of [null, 1, [], {}, { event: 7 }, { event: 'track', payload: 7 }])
    assert.equal(
      (await socket.ask('realtime:odd', 'presence', payload)).status,
      'error',
      JSON.stringify(payload),
    )
  for (const payload of [null, 1, [], {}, { access_token: {} }])
    socket.push('realtime:odd', 'access_token', payload)
  for (const payload of [null, 1, [], {}, { event: 7 }]) socket.push('realtime:odd', 'broadcast', payload)
  await socket.settled()
  assert.equal((await socket.ask('realtime:odd', 'phx_leave', null)).status, 'ok')
  await socket.close()
})

test('without an upgrade the address says what it is; a handshake that is none is refused', async () => {
  const path = `/v1/${project.id}/realtime/v1/websocket`
  const plain = await platform.call('GET', `${path}?apikey=${project.anon_key}`)
  assert.deepEqual(
    [plain.status, plain.body.code, plain.headers.get('upgrade')],
    [426, 'upgrade_required', 'websocket'],
  )
  const head = [
    `GET ${path}?apikey=${project.anon_key} HTTP/1.1`,
    'host: x',
    'connection: upgrade',
    'upgrade: websocket',
  ]
  const keyless = await spoken([...head, 'sec-websocket-version: 13'])
  assert.match(keyless, /^HTTP\/1\.1 400 [\s\S]*x-request-id: [\s\S]*"code":"invalid_request"/)
  assert.match(await spoken([...head, 'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==']), /^HTTP\/1\.1 400 /)
})

test('a request that would rather be another protocol is answered all the same', async () => {
  const answer = await spoken([
    `GET /v1/rest/${project.id}/ HTTP/1.1`,
    'host: x',
    `apikey: ${project.anon_key}`,
    'connection: upgrade, http2-settings, close',
    'upgrade: h2c',
    'http2-settings: AAMAAABkAAQAoAAAAAIAAAAA',
  ])
  assert.match(answer, /^HTTP\/1\.1 200 /)
})

test('the log holds neither keys nor tokens of sockets', async () => {
  const token = user(project, { marker: 'of the log' })
  await (await RawSocket.open(platform, project, token)).close()
  assert.equal(await refused(socketUrl(platform, project, `${token}x`)), 401)
  for (const status of [101, 401])
    await until(`${status} is logged`, async () =>
      platform.logged.some(line => line.includes('socket/websocket') && line.includes(`"status":${status}`)),
    )
  assert.ok(!platform.logged.some(line => line.includes(token) || line.includes(project.anon_key)))
})

test('a platform that stops says goodbye to its sockets and does not wait for those that say nothing', async () => {
  const stopping = await startPlatform({ settings: { PLATFORM_SHUTDOWN_GRACE_MS: '1000' } })
  const own = await stopping.createProject()
  const socket = await RawSocket.open(stopping, own)
  await socket.join('realtime:room')
  const silent = await RawSocket.open(stopping, own)
  silent.connection.pause()
  const begunAt = Date.now()
  const [ended] = await Promise.all([socket.end(), stopping.stop()])
  assert.deepEqual(ended, { code: 1001, reason: 'the platform is stopping' })
  assert.ok(Date.now() - begunAt < 20_000)
  silent.connection.terminate()
})
