// Realtime contract §4, §8 and case 10: the JWT of a channel, its renewal and its expiry.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { nowSeconds, userJwt } from '../people.ts'
import { broadcastsOf, type RealtimeApi, realtimeProject, receivesBroadcast, topicOf } from '../realtime.ts'
import { ada, bob } from '../storage.ts'
import { type Target, target } from '../target.ts'

let it: Target
let realtime: RealtimeApi
before(async () => {
  it = await target()
  realtime = await realtimeProject(it)
})
after(async () => {
  await realtime.closeAll()
  await it.stop()
})

test('Realtime contract §4: the JWT of the join applies to the channel, otherwise that of the socket', async () => {
  const table = await realtime.table(
    'id int primary key, owner uuid',
    name => `create policy mine on public.${name} for select using (owner = auth.uid())`,
  )
  const socket = await realtime.connect({ as: bob })
  const binding = { event: 'INSERT', table }
  const own = await realtime.subscribeOn(socket, binding)
  const adas = await realtime.subscribeOn(socket, binding, { access_token: userJwt(realtime.project, ada) })
  const legacyName = await realtime.subscribeOn(socket, binding, {
    user_token: userJwt(realtime.project, ada),
  })
  const anon = await realtime.subscribeOn(await realtime.connect(), binding, {
    access_token: realtime.project.anon_key,
  })
  await realtime.sql(`insert into public.${table} values (1, '${ada.sub}'), (2, '${bob.sub}')`)
  const newChanges = await realtime.newChanges(own, adas, legacyName, anon)
  assert.deepEqual(
    newChanges.map(changes => changes.map(({ new: { id } }) => id)),
    [[2], [1], [1], []],
  )
})

test('Realtime contract §4: a join with an invalid token is an error with its code', async () => {
  const socket = await realtime.connect()
  const expired = userJwt(realtime.project, { exp: nowSeconds() - 60 })
  const forged = userJwt({ jwt_secret: 'y'.repeat(40) })
  const bad: [string, RegExp][] = [
    [expired, /^InvalidJWTToken: ./],
    [forged, /^(JwtSignatureError|InvalidJWTToken): ./],
    ['a.b.c', /^(MalformedJWT|InvalidJWTToken|JwtSignatureError): ./],
  ]
  for (const [access_token, reason] of bad) {
    const { status, response } = await socket.tryJoin(topicOf(), { config: {}, access_token })
    assert.equal(status, 'error')
    assert.match(response.reason, reason)
  }
  await socket.join(topicOf())
})

test('Realtime contract §8: an invalid token sent later is a system error, and the channel is closed', async () => {
  const expired = userJwt(realtime.project, { exp: nowSeconds() - 60 })
  const forged = userJwt({ jwt_secret: 'y'.repeat(40) })
  for (const access_token of [expired, forged, 'a.b.c']) {
    const socket = await realtime.connect({ as: ada })
    const [channel, other] = [
      await socket.join(topicOf()),
      await socket.join(topicOf(), { broadcast: { self: true } }),
    ]
    const ref = channel.push('access_token', { access_token })
    const summary = await channel.system('error', 'system')
    assert.equal(summary.payload.channel, channel.topic.slice('realtime:'.length))
    assert.equal(typeof summary.payload.message, 'string')
    const closed = await channel.find('phx_close', ({ event }) => event === 'phx_close')
    assert.ok(channel.received().indexOf(summary) < channel.received().indexOf(closed))
    assert.ok(!socket.received.some(message => message.ref === ref && message.event === 'phx_reply'))
    other.broadcast('still open')
    await receivesBroadcast(other, 'still open')
  }
})

test('Realtime contract §8: no token, the same token or the project’s key have no effect and get no reply', async () => {
  const token = userJwt(realtime.project, ada)
  const socket = await realtime.connect()
  const channel = await socket.join(topicOf(), { broadcast: { self: true } }, { access_token: token })
  const same = [null, token, realtime.project.anon_key, token]
  const refs = same.map(access_token => channel.push('access_token', { access_token }))
  channel.broadcast('still here')
  await receivesBroadcast(channel, 'still here')
  await socket.heartbeat()
  assert.deepEqual(broadcastsOf(channel), [['still here', {}]])
  const answers = socket.received.filter(
    ({ event, ref }) => event === 'phx_close' || refs.includes(ref ?? ''),
  )
  assert.deepEqual(answers, [])
})

test('case 10: when its token expires the channel gets a system error and is closed', async () => {
  const socket = await realtime.connect()
  const access_token = userJwt(realtime.project, { ...ada, exp: nowSeconds() + 8 })
  const channel = await socket.join(topicOf(), {}, { access_token })
  const summary = await channel.system('error', 'system')
  assert.equal(typeof summary.payload.message, 'string')
  await channel.find('phx_close', ({ event }) => event === 'phx_close')
  await socket.heartbeat()
})

test('case 10: a token renewed in time keeps the channel open', async () => {
  const socket = await realtime.connect()
  const short = userJwt(realtime.project, { ...ada, exp: nowSeconds() + 12 })
  const renewed = await socket.join(topicOf(), { broadcast: { self: true } }, { access_token: short })
  const left = await socket.join(topicOf(), {}, { access_token: short })
  renewed.push('access_token', { access_token: userJwt(realtime.project, ada) })
  await left.find('phx_close', ({ event }) => event === 'phx_close')
  renewed.broadcast('still here')
  await receivesBroadcast(renewed, 'still here')
  assert.ok(!renewed.received().some(({ event }) => event === 'phx_close'))
})
