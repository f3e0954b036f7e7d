// Sockets during changes of the project, its keys and the platform, and malformed input on them.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { signJwt } from '#src/kernel/crypto/jwt.ts'
import { authProject } from './auth-project.ts'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { broadcast, RawSocket, refused, socketUrl } from './realtime-raw.ts'
import { projectDatabase } from './realtime-subscriber.ts'

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

/** Sends raw bytes, and returns the whole response. */
async function rawResponse(lines: string[]): Promise<string> {
  const { hostname, port } = new URL(platform.url)
  const socket = connect(Number(port), hostname)
  socket.setTimeout(60_000, () => socket.destroy(new Error('nothing came back')))
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  let answer = ''
  socket.on('data', chunk => (answer += chunk))
  await once(socket, 'close')
  return answer
}

test('realtime sockets: suspending a project closes its sockets and rejects new ones until it is resumed', async () => {
  const own = await platform.createProject()
  const socket = await RawSocket.open(platform, own)
  await socket.join('realtime:room')
  const neighbour = await RawSocket.open(platform, project)
  await platform.projects.suspend({ params: { id: own.id } })
  assert.deepEqual(await socket.end(), { code: 1008, reason: 'the project is suspended' })
  assert.equal(await refused(socketUrl(platform, own)), 403)
  await neighbour.settled()
  await neighbour.close()
  await platform.projects.resume({ params: { id: own.id } })
  await (await RawSocket.open(platform, own)).close()
})

test('realtime sockets: deleting a project closes its sockets, and new ones get 401', async () => {
  const own = await platform.createProject()
  const socket = await RawSocket.open(platform, own)
  await platform.projects.remove({ params: { id: own.id } })
  assert.deepEqual(await socket.end(), { code: 1008, reason: 'the project is gone' })
  assert.equal(await refused(socketUrl(platform, own)), 401)
})

test('realtime sockets: rotated keys close the sockets opened with them, a new secret those of users', async () => {
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

test('realtime sockets: a token is rejected if its secret changes during the check', async () => {
  const own = await platform.createProject()
  const database = await projectDatabase(platform, own)
  await database.run(`
    create policy slowly on realtime.messages for select using (auth.uid() is null or pg_sleep(0.25) is not null)`)
  const socket = await RawSocket.open(platform, own)
  const joinRef = await socket.join('realtime:mine', { private: true })
  socket.push('realtime:mine', 'access_token', { access_token: user(own) }, joinRef)
  await eventually(async () => {
    const asking = await database.rows("select 1 from pg_stat_activity where wait_event = 'PgSleep'")
    return asking.length > 0
  }, 'the policy check runs')
  await platform.projects.rotateJwtSecret({ params: { id: own.id } })
  const [, , , , { message }] = await socket.event('realtime:mine', 'system')
  assert.match(message, /^JwtSignatureError: /)
  await socket.event('realtime:mine', 'phx_close')
  await socket.close()
})

test('realtime sockets: a settings change does not affect open sockets', async () => {
  const socket = await RawSocket.open(platform, project)
  const joinRef = await socket.join('realtime:calm')
  await platform.projects.update({ params: { id: project.id }, body: { settings: { note: 'new' } } })
  await platform.call('GET', `/v1/rest/${project.id}/`, { apikey: project.anon_key })
  await socket.settled()
  assert.deepEqual(await socket.ask('realtime:calm', 'phx_leave', {}), { status: 'ok', response: {} })
  assert.equal((await socket.event('realtime:calm', 'phx_close'))[0], joinRef)
  await socket.close()
})

test('realtime sockets: ending a session closes its channels, and no others', async () => {
  const own = await authProject(platform)
  const [ann, bob] = [await own.signUp('ann@example.com'), await own.signUp('bob@example.com')]
  const socket = await RawSocket.open(platform, own)
  await socket.join('realtime:ann', {}, { access_token: ann.access_token })
  await socket.join('realtime:bob', {}, { access_token: bob.access_token })
  assert.equal((await own.asUser(ann.access_token, 'POST', '/logout?scope=global')).status, 204)
  const [, , , , { status, message }] = await socket.event('realtime:ann', 'system')
  assert.deepEqual([status, message], ['error', 'InvalidJWTToken: Token has been revoked'])
  await socket.event('realtime:ann', 'phx_close')
  await socket.settled()
  assert.ok(!socket.frames.some(([, , topic]) => topic === 'realtime:bob'))
  const { response } = await socket.ask('realtime:ann', 'phx_join', {
    config: {},
    access_token: ann.access_token,
  })
  assert.match(response.reason, /^InvalidJWTToken: /)
  await socket.close()
})

test('realtime sockets: a join is rejected if its token expires during the check', async () => {
  const own = await platform.createProject()
  const database = await projectDatabase(platform, own)
  await database.run('create policy slowly on realtime.messages for select using (pg_sleep(4) is not null)')
  const socket = await RawSocket.open(platform, own)
  const answer = await socket.ask('realtime:mine', 'phx_join', {
    config: { private: true },
    access_token: user(own, { exp: inSeconds(2) }),
  })
  assert.deepEqual(answer, { status: 'error', response: { reason: 'InvalidJWTToken: Token has expired' } })
  await socket.settled()
  assert.deepEqual(socket.frames, [])
  await socket.close()
})

test('realtime sockets: an expired socket token cannot join channels', async () => {
  // Long enough for a slow machine to join before.
  const socket = await RawSocket.open(platform, project, user(project, { exp: inSeconds(10) }))
  await socket.join('realtime:short')
  await socket.event('realtime:short', 'phx_close')
  const { status, response } = await socket.ask('realtime:short', 'phx_join', { config: {} })
  assert.deepEqual([status, response.reason], ['error', 'InvalidJWTToken: Token has expired'])
  await socket.join('realtime:short', {}, { access_token: user(project) })
  await socket.close()
})

test('realtime sockets: frames sent right after a join or a token wait for its check', async () => {
  const [speaker, receiver] = [
    await RawSocket.open(platform, project),
    await RawSocket.open(platform, project),
  ]
  await receiver.join('realtime:queue')
  const joinRef = speaker.push('realtime:queue', 'phx_join', { config: {}, access_token: user(project) })
  speaker.send(broadcast('realtime:queue', 'one', 1))
  speaker.push('realtime:queue', 'access_token', { access_token: user(project) }, joinRef)
  speaker.send(broadcast('realtime:queue', 'two', 2))
  speaker.push('realtime:queue', 'access_token', { access_token: 'no token' }, joinRef)
  speaker.send(broadcast('realtime:queue', 'three', 3))
  await speaker.event('realtime:queue', 'phx_close')
  await speaker.settled()
  await receiver.settled()
  const received = receiver.frames.filter(frame => frame[3] === 'broadcast').map(frame => frame[4].event)
  assert.deepEqual(received, ['one', 'two'])
  assert.deepEqual((await speaker.ask('realtime:queue', 'broadcast', {})).response, {
    reason: 'unmatched topic',
  })
  for (const socket of [speaker, receiver]) await socket.close()
})

test('realtime sockets: a large message keeps its order among small ones', async () => {
  const [speaker, receiver] = [
    await RawSocket.open(platform, project),
    await RawSocket.open(platform, project),
  ]
  for (const socket of [speaker, receiver])
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
  const received: string[] = []
  while (received.at(-1) !== 'g')
    received.push((await receiver.event('realtime:sizes', 'broadcast'))[4].payload.payload)
  assert.deepEqual(received, [...texts, 'f'.repeat(100_000), 'g'])
  // Frames that wait for a large one are dropped when the socket closes.
  for (let count = 0; count < 20; count++)
    speaker.push('realtime:sizes', 'broadcast', { event: 'e', payload: texts[1] })
  speaker.connection.terminate()
  await receiver.settled()
  await receiver.close()
})

test('realtime sockets: a channel left before its join is checked is never joined', async () => {
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
  test(`realtime sockets: ${what} closes only its own socket, with a reason`, async () => {
    const [socket, other] = [await RawSocket.open(platform, project), await RawSocket.open(platform, project)]
    socket.send(data)
    const ended = await socket.end()
    assert.equal(ended.code, code)
    if (code === 1003) assert.match(ended.reason, /^malformed: /)
    await other.settled()
    await other.close()
  })

test('realtime sockets: deep nesting, prototype keys and joins of any shape close nothing', async () => {
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

test('realtime sockets: a plain request to the socket URL gets an explanation, and an invalid handshake is rejected', async () => {
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
  const keyless = await rawResponse([...head, 'sec-websocket-version: 13'])
  assert.match(keyless, /^HTTP\/1\.1 400 [\s\S]*x-request-id: [\s\S]*"code":"invalid_request"/)
  assert.match(
    await rawResponse([...head, 'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==']),
    /^HTTP\/1\.1 400 /,
  )
})

test('realtime sockets: an upgrade to another protocol gets a normal response', async () => {
  const answer = await rawResponse([
    `GET /v1/rest/${project.id}/ HTTP/1.1`,
    'host: x',
    `apikey: ${project.anon_key}`,
    'connection: upgrade, http2-settings, close',
    'upgrade: h2c',
    'http2-settings: AAMAAABkAAQAoAAAAAIAAAAA',
  ])
  assert.match(answer, /^HTTP\/1\.1 200 /)
})

test('realtime sockets: the log contains no keys or tokens', async () => {
  const token = user(project, { marker: 'of the log' })
  await (await RawSocket.open(platform, project, token)).close()
  assert.equal(await refused(socketUrl(platform, project, `${token}x`)), 401)
  for (const status of [101, 401])
    await eventually(
      () =>
        platform.logged.some(
          line => line.includes('socket/websocket') && line.includes(`"status":${status}`),
        ),
      `${status} is logged`,
    )
  assert.ok(!platform.logged.some(line => line.includes(token) || line.includes(project.anon_key)))
})

test('realtime sockets: shutdown closes sockets, and does not wait for clients that do not respond', async () => {
  const stopping = await startPlatform({ settings: { PLATFORM_SHUTDOWN_GRACE_MS: '1000' } })
  const own = await stopping.createProject()
  const socket = await RawSocket.open(stopping, own)
  await socket.join('realtime:room')
  const silent = await RawSocket.open(stopping, own)
  silent.connection.pause()
  const [ended] = await Promise.all([socket.end(), stopping.stop()])
  assert.deepEqual(ended, { code: 1001, reason: 'the platform is stopping' })
  silent.connection.terminate()
})
