// Signing keys on two nodes of one platform.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { eventually } from './eventually.ts'
import { startPlatform, type TestPlatform } from './harness.ts'
import { broadcast, RawSocket } from './realtime-raw.ts'
import { headerOf, signingProject } from './signing-keys-project.ts'

let here: TestPlatform
let there: TestPlatform
before(async () => {
  here = await startPlatform()
  there = await startPlatform({ beside: here })
})
after(async () => {
  await there?.stop()
  await here?.stop()
})

test('signing keys: another node accepts a token of a new key at once, and has the key in its JWKS', async () => {
  const project = await signingProject(here)
  assert.equal(
    (await there.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key })).status,
    200,
  )
  for (let i = 0; i < 5; i++) {
    const token = await project.newToken()
    assert.equal(await project.statusWith(token, there), 200)
    assert.equal((await project.jwks(there))[0]!.kid, headerOf(token).kid)
    await project.rotate()
  }
})

test('signing keys: sockets of another node accept a token of a new key at once', async () => {
  const project = await signingProject(here)
  const socket = await RawSocket.open(there, project)
  await project.newToken()
  const joined = await socket.join('realtime:room', {}, { access_token: await project.newToken() })
  await project.rotate()
  socket.push('realtime:room', 'access_token', { access_token: await project.newToken() }, joined)
  await project.rotate()
  const own = await RawSocket.open(there, project, await project.newToken())
  await project.rotate()
  await socket.join('realtime:other', {}, { access_token: await project.newToken() })
  await socket.settled()
  assert.deepEqual(
    socket.frames.filter(([, , , event]) => event === 'phx_close' || event === 'system'),
    [],
  )
  await own.close()
  await socket.close()
})

test('signing keys: a join that waits for a key is replaced by a later join, and ends with a leave', async () => {
  const project = await signingProject(here)
  const socket = await RawSocket.open(there, project)
  const sender = await RawSocket.open(there, project)
  await sender.join('realtime:room')
  await sender.join('realtime:left')
  const access_token = await project.newToken()
  socket.push('realtime:room', 'phx_join', { config: {}, access_token })
  const later = socket.push('realtime:room', 'phx_join', { config: {}, access_token })
  socket.push('realtime:left', 'phx_join', { config: {}, access_token })
  assert.equal((await socket.ask('realtime:left', 'phx_leave', {})).status, 'ok')
  assert.equal((await socket.answer(later)).status, 'ok')
  sender.send(broadcast('realtime:left', 'said', {}))
  sender.send(broadcast('realtime:room', 'said', {}))
  await socket.event('realtime:room', 'broadcast')
  await sender.settled()
  await socket.settled()
  assert.deepEqual(
    socket.frames.filter(([, , , event]) => event === 'broadcast'),
    [],
  )
  await sender.close()
  await socket.close()
})

test('signing keys: rotations on two nodes at once leave one key that signs, and keep every former key', async () => {
  const project = await signingProject(here)
  const token = await project.newToken()
  const rotated = await Promise.all([project.rotate(here), project.rotate(there), project.rotate(here)])
  const keys = (await project.jwks()).map(({ kid }) => kid)
  assert.deepEqual(new Set(keys), new Set([headerOf(token).kid, ...rotated.map(({ kid }) => kid)]))
  assert.equal(headerOf(await project.newToken()).kid, keys[0])
  assert.deepEqual([await project.statusWith(token), await project.statusWith(token, there)], [200, 200])
})

test('signing keys: first sign-ins at once on two nodes make one key', async () => {
  const project = await signingProject(here)
  const elsewhere = (email: string) =>
    there.call('POST', `/v1/${project.id}/auth/v1/signup`, {
      apikey: project.anon_key,
      body: { email, password: 'correct horse' },
    })
  const tokens = await Promise.all([
    project.newToken(),
    project.newToken(),
    ...['a@example.test', 'b@example.test'].map(async email => (await elsewhere(email)).body.access_token),
  ])
  assert.equal(new Set(tokens.map(token => headerOf(token).kid)).size, 1)
  assert.equal((await project.jwks()).length, 1)
})

test('signing keys: rotate/jwt on one node invalidates ES256 tokens on the other', async () => {
  const project = await signingProject(here)
  const token = await project.newToken()
  assert.equal(await project.statusWith(token, there), 200)
  await here.projects.rotateJwtSecret({ params: { id: project.id } })
  await eventually(async () => (await project.statusWith(token, there)) === 401, 'the other node rejects it')
  assert.deepEqual(await project.jwks(there), [])
})
