// 1 §4.7, §5 and Realtime contract §1: who may open a socket, at which address, and how others are rejected.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { authProject } from '../auth.ts'
import {
  type CreatedProject,
  createProject,
  mintToken,
  nowSeconds,
  someId,
  unlimited,
  userJwt,
} from '../people.ts'
import { openSocket, type Socket } from '../phoenix.ts'
import type { Version } from '../phoenix-frames.ts'
import { credentialOf, type RealtimeApi, realtimeProject, refused, socketUrl, topicOf } from '../realtime.ts'
import { type Shape, shapes } from '../service.ts'
import { ada } from '../storage.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertDataError } from '../wire.ts'

let it: Target
let realtime: RealtimeApi
let project: CreatedProject
const sockets: Socket[] = []
before(async () => {
  it = await target()
  realtime = await realtimeProject(it)
  project = realtime.project
})
after(async () => {
  await Promise.all([...sockets.map(socket => socket.close()), realtime.closeAll()])
  await it.stop()
})

async function open(
  query: Record<string, string>,
  { shape = 'native' as Shape, headers = {}, version = '2.0.0' as Version, of = project } = {},
): Promise<Socket> {
  const socket = await openSocket(socketUrl(it, of, query, shape), version, headers)
  sockets.push(socket)
  return socket
}
const vsn = { vsn: '2.0.0' }

for (const shape of shapes)
  test(`1 §4.7 the ${shape} address takes an anon key, a service_role key or a user’s JWT, as token or apikey`, async () => {
    for (const as of ['anon', 'service_role', ada] as const)
      for (const by of ['token', 'apikey']) {
        const socket = await open({ [by]: credentialOf(project, as), ...vsn }, { shape })
        assert.deepEqual((await socket.heartbeat()).payload, { status: 'ok', response: {} })
        await socket.join(topicOf())
      }
  })

test('Realtime contract §1: the credential may come in the header x-api-key', async () => {
  for (const shape of shapes)
    for (const as of ['anon', 'service_role'] as const) {
      const headers = { 'x-api-key': credentialOf(project, as) }
      await (await open(vsn, { shape, headers })).heartbeat()
    }
})

test('Realtime contract §1: user and log parameters are accepted', async () => {
  const query = { apikey: project.anon_key, ...vsn, log_level: 'info', colour: 'blue' }
  await (await open(query, { shape: 'alias' })).heartbeat()
})

test('Realtime contract §2: the default version is 1.0.0', async () => {
  const socket = await open({ token: project.anon_key }, { version: '1.0.0' })
  const { text } = await socket.heartbeat()
  assert.partialDeepStrictEqual(JSON.parse(text), {
    topic: 'phoenix',
    event: 'phx_reply',
    payload: { status: 'ok', response: {} },
    ref: '1',
  })
})

test('Realtime contract §1: the server sends nothing after opening the connection', async () => {
  for (const version of ['1.0.0', '2.0.0'] as const) {
    const socket = await open({ token: project.service_role_key, vsn: version }, { version })
    await socket.heartbeat()
    await socket.heartbeat()
    assert.deepEqual(
      socket.received.map(({ event }) => event),
      ['phx_reply', 'phx_reply'],
    )
  }
})

test('Realtime contract §1: a browser connects from any origin, with any offered extensions', async () => {
  const origin = { origin: 'https://app.example.test' }
  await (await open({ apikey: project.anon_key, ...vsn }, { shape: 'alias', headers: origin })).heartbeat()
  for (const shape of shapes) {
    const socket = new WebSocket(socketUrl(it, project, { apikey: project.anon_key, ...vsn }, shape))
    const reply = new Promise<string>((resolve, reject) => {
      socket.onmessage = ({ data }) => resolve(data)
      socket.onerror = () => reject(new Error('the browser’s socket failed'))
    })
    socket.onopen = () => socket.send('[null,"1","phoenix","heartbeat",{}]')
    const text = await within('the answer to a heartbeat', reply)
    assert.deepEqual(JSON.parse(text), [null, '1', 'phoenix', 'phx_reply', { status: 'ok', response: {} }])
    socket.close()
  }
})

test('1 §5.1, Clarifications: an unknown project, key or token gets the same 401', async () => {
  const other = await createProject(it)
  const wrong: [string, Record<string, string>][] = [
    ['a word', { token: 'wrong' }],
    ['the shape of a key', { token: `${project.anon_key.slice(0, -4)}aaaa` }],
    ['the key of another project', { token: other.anon_key }],
    ['the service_role key of another project', { apikey: other.service_role_key }],
    ['a user of another project', { token: userJwt(other) }],
    ['a JWT of an unknown signature', { token: userJwt({ jwt_secret: 'x'.repeat(40) }) }],
  ]
  const bodies = new Set<string>()
  for (const shape of shapes) {
    for (const [who, query] of wrong) {
      const reply = await refused(it, project, { ...query, ...vsn }, {}, shape)
      assert.equal(reply.status, 401, `${who}: ${reply.status} ${reply.text}`)
      assertDataError(reply, 'unauthorized')
      bodies.add(reply.text)
    }
    for (const id of [someId, 'nothing']) {
      const reply = await refused(it, { id }, { token: project.anon_key, ...vsn }, {}, shape)
      assertDataError(reply, 'unauthorized')
      bodies.add(reply.text)
    }
  }
  assert.equal(bodies.size, 1, [...bodies].join('\n'))
})

test('1 §5.1, Clarifications: other 401s say what is wrong with the credential', async () => {
  const pat = await mintToken(it, 'admin')
  const wrong: [Record<string, string>, RegExp][] = [
    [{}, /No credential/],
    [{ token: '' }, /No credential/],
    [{ token: userJwt(project, { exp: nowSeconds() - 10 }) }, /JWT expired/],
    [{ token: userJwt(project, { role: 'postgres' }) }, /'role' claim/],
    [{ token: it.adminToken }, /token of the management API/],
    [{ apikey: pat.token }, /token of the management API/],
  ]
  for (const shape of shapes)
    for (const [query, message] of wrong) {
      const reply = await refused(it, project, { ...query, ...vsn }, {}, shape)
      assertDataError(reply, 'unauthorized')
      assert.match(reply.body.message, message)
    }
})

test('Realtime contract §1: a request to the socket address without an upgrade is rejected', async () => {
  for (const shape of shapes) {
    const url = new URL(socketUrl(it, project, { token: project.anon_key, ...vsn }, shape))
    const reply = await it.call('GET', url.pathname + url.search)
    assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status} ${reply.text}`)
  }
})

test('Realtime contract §1: an upgrade at another address opens no socket, and the server keeps working', async () => {
  for (const path of [`/v1/realtime/${project.id}/socket`, `/v1/rest/${project.id}/markers`, '/v1', '/']) {
    const url = `${it.url.replace(/^http/, 'ws')}${path}?token=${project.anon_key}`
    await assert.rejects(openSocket(url, '2.0.0'))
  }
  await (await open({ token: project.anon_key, ...vsn })).heartbeat()
})

test('1 §1 a suspended project is 403, and its open sockets are closed within a second', async () => {
  const own = await createProject(it, { quotas: unlimited })
  const socket = await open({ token: own.anon_key, ...vsn }, { of: own })
  await socket.heartbeat()
  assert.equal((await it.manage('POST', `/projects/${own.id}/suspend`)).status, 200)
  await within('the socket of a suspended project is closed', socket.closed)
  for (const shape of shapes)
    assertDataError(await refused(it, own, { token: own.anon_key, ...vsn }, {}, shape), 'project_suspended')
  assert.equal((await it.manage('POST', `/projects/${own.id}/resume`)).status, 200)
  const again = await until('the project is resumed', () =>
    open({ token: own.anon_key, ...vsn }, { of: own }).catch(() => null),
  )
  await again.heartbeat()
})

async function within<T>(what: string, coming: Promise<T>): Promise<T> {
  const seconds = 60
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${seconds} seconds: ${what}`)), seconds * 1000)
  })
  return Promise.race([coming, late]).finally(() => clearTimeout(timer))
}

test('Clarifications: rotating keys closes the sockets opened with the old ones', async () => {
  const own = await createProject(it, { quotas: unlimited })
  const olds = [
    await open({ token: own.anon_key, ...vsn }, { of: own }),
    await open({ apikey: own.service_role_key, ...vsn }, { of: own, shape: 'alias' }),
  ]
  const { body, status } = await it.manage('POST', `/projects/${own.id}/rotate/api-keys`)
  assert.equal(status, 200)
  for (const socket of olds) await within('the socket of an old key is closed', socket.closed)
  assertDataError(await refused(it, own, { token: own.anon_key, ...vsn }), 'unauthorized')
  await (await open({ token: body.anon_key, ...vsn }, { of: own })).heartbeat()
})

test('Clarifications: a new JWT secret closes the sockets of the users', async () => {
  const own = await createProject(it, { quotas: unlimited })
  const socket = await open({ token: userJwt(own), ...vsn }, { of: own })
  await socket.heartbeat()
  const rotated = await it.manage('POST', `/projects/${own.id}/rotate/jwt`)
  assert.equal(rotated.status, 200, rotated.text)
  await within('the socket of an old JWT is closed', socket.closed)
  assertDataError(await refused(it, own, { token: userJwt(own), ...vsn }), 'unauthorized')
})

test('Clarifications: a deleted project closes its sockets', async () => {
  const own = await createProject(it, { quotas: unlimited })
  const socket = await open({ token: own.service_role_key, ...vsn }, { of: own })
  await socket.heartbeat()
  assert.equal((await it.manage('DELETE', `/projects/${own.id}`)).status, 204)
  await within('the socket of a deleted project is closed', socket.closed)
  assertDataError(await refused(it, own, { token: own.service_role_key, ...vsn }), 'unauthorized')
})

test('Clarifications: an ended session cannot open a socket', async () => {
  const auth = await authProject(it)
  const user = await auth.signUp()
  await (await open({ token: user.token, ...vsn }, { of: auth.project })).heartbeat()
  assert.equal((await auth.post('/logout', undefined, { token: user.token })).status, 204)
  await until('the ended session is refused', async () => {
    try {
      return (await refused(it, auth.project, { token: user.token, ...vsn })).status === 401
    } catch {
      return false
    }
  })
})

test('Clarifications: an ended session receives nothing more on its open sockets', async () => {
  const auth = await authProject(it)
  const topic = topicOf()
  const speaker = await (await open({ token: auth.project.anon_key, ...vsn }, { of: auth.project })).join(
    topic,
  )
  for (const ends of ['logs out', 'is banned', 'is deleted']) {
    const user = await auth.signUp()
    const socket = await open({ token: user.token, ...vsn }, { of: auth.project })
    const channel = await socket.join(topic)
    const admin = `/admin/users/${user.id}`
    if (ends === 'logs out') await auth.post('/logout', undefined, { token: user.token })
    if (ends === 'is banned') await auth.admin('PUT', admin, { ban_duration: '1h' })
    if (ends === 'is deleted') await auth.admin('DELETE', admin)
    const gone = channel
      .find('phx_close', ({ event }) => event === 'phx_close', 15)
      .catch(() => assert(!socket.isOpen))
    await within(`who ${ends} is sent away`, Promise.race([gone, socket.closed]))
    speaker.broadcast(ends)
  }
})

test('Clarifications: realtime_max_clients limits the sockets of a project, one more is 429', async () => {
  const own = await createProject(it, { quotas: { ...unlimited, realtime_max_clients: 3 } })
  const query = { token: own.anon_key, ...vsn }
  const three = [
    await open(query, { of: own }),
    await open(query, { of: own, shape: 'alias' }),
    await open({ token: own.service_role_key, ...vsn }, { of: own }),
  ]
  for (const shape of shapes) {
    const reply = await refused(it, own, query, {}, shape)
    assert.equal(reply.status, 429, `${reply.status} ${reply.text}`)
    assert.equal(typeof reply.body.error, 'string')
  }
  for (const socket of three) await socket.heartbeat()
  await (await open({ token: project.anon_key, ...vsn })).heartbeat()
  await three[0]!.close()
  const another = await until('there is room again', () => open(query, { of: own }).catch(() => null))
  await another.heartbeat()
  assert.equal((await refused(it, own, query)).status, 429)
})
