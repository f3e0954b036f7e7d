// Tokens on an open socket: set, refreshed, taken back, wrong and expired.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { until } from './realtime-ear.ts'
import { ada, bob, ear, password, type Stage, setStage, settled, topic } from './realtime-stage.ts'

const columns = 'id int primary key, owner uuid, label text'
const own = `using (owner = auth.uid() or label = 'public')`
const acknowledged = { broadcast: { ack: true } }
const seconds = () => Math.floor(Date.now() / 1000)

export function authTests(stage: () => Stage): void {
  const tokenOf = (sub: string, more: object = {}) => stage().token({ sub, role: 'authenticated', ...more })

  test('a token that is set on a joined channel decides what is heard from then on', async () => {
    const { anon, sql, table } = stage()
    const name = await table(columns, own)
    const client = anon()
    const listener = await ear(client, topic(), acknowledged, { table: name }).join()
    const write = (id: number) =>
      sql(
        `insert into ${name} values (${id}, '${ada}', ''), (${id + 1}, '${bob}', ''), (${id + 2}, null, 'public')`,
      )
    await write(1)
    await listener.hears(1)
    await client.setAuth(tokenOf(ada))
    await settled(listener.channel)
    await write(11)
    await listener.hears(3)
    await client.setAuth(tokenOf(bob))
    await settled(listener.channel)
    await write(21)
    await listener.hears(5)
    assert.deepEqual(listener.ids(), [3, 11, 13, 22, 23])
    assert.deepEqual(listener.statuses, ['SUBSCRIBED'])
  })

  test('a token counts for every channel of the socket, and for those joined later', async () => {
    const { anon, sql, table } = stage()
    const name = await table(columns, own)
    const client = anon({ accessToken: async () => tokenOf(ada) })
    await client.setAuth()
    const listeners = [await ear(client, topic(), acknowledged, { table: name }).join()]
    listeners.push(await ear(client, topic(), acknowledged, { table: name }).join())
    await sql(`insert into ${name} values (1, '${ada}', ''), (2, '${bob}', ''), (3, null, 'public')`)
    for (const listener of listeners) {
      await listener.hears(2)
      assert.deepEqual(listener.ids(), [1, 3])
    }
  })

  test('the client asks for a newer token with every heartbeat', async () => {
    const { anon, sql, table } = stage()
    const name = await table(columns, own)
    let token = tokenOf(ada)
    const client = anon({ accessToken: async () => token, heartbeatIntervalMs: 1000 })
    await client.setAuth()
    const listener = await ear(client, topic(), acknowledged, { table: name }).join()
    await sql(`insert into ${name} values (1, '${ada}', '')`)
    await listener.hears(1)
    token = tokenOf(bob)
    await until(() => client.accessTokenValue === token, 'the next heartbeat')
    await settled(listener.channel)
    await sql(`insert into ${name} values (2, '${ada}', ''), (3, '${bob}', '')`)
    await listener.hears(2)
    assert.deepEqual(listener.ids(), [1, 3])
  })

  test('a session that is refreshed brings its new claims', async () => {
    const { signUp, sql, table, fetch } = stage()
    const name = await table(columns, `using (label in (auth.jwt() -> 'app_metadata' ->> 'team', 'all'))`)
    const { id, realtime, auth } = await signUp()
    const listener = await ear(realtime, topic(), acknowledged, { table: name }).join()
    const promoted = await fetch(`auth/v1/admin/users/${id}`, {
      method: 'PUT',
      body: JSON.stringify({ app_metadata: { team: 'red' } }),
    })
    assert.equal(promoted.status, 200)
    await sql(`insert into ${name} (id, label) values (1, 'red'), (2, 'all')`)
    await listener.hears(1)
    const before = realtime.accessTokenValue
    const { error } = await auth.refreshSession()
    assert.equal(error, null)
    await until(() => realtime.accessTokenValue !== before, 'the client has the new token')
    await settled(listener.channel)
    await sql(`insert into ${name} (id, label) values (3, 'blue'), (4, 'red')`)
    await listener.hears(2)
    assert.deepEqual(listener.ids(), [2, 4])
  })

  test('who signs out hears as anon, and who signs in again as before', async () => {
    const { signUp, project, sql, table } = stage()
    const name = await table(columns, own)
    const { id, email, realtime, auth } = await signUp()
    const listener = await ear(realtime, topic(), acknowledged, { table: name }).join()
    const write = (first: number) =>
      sql(`insert into ${name} values (${first}, '${id}', ''), (${first + 1}, null, 'public')`)
    await write(1)
    await listener.hears(2)
    await auth.signOut()
    await until(() => realtime.accessTokenValue === project.anon_key, 'the client has let go of the token')
    await settled(listener.channel)
    await write(11)
    await listener.hears(3)
    assert.deepEqual(listener.ids(), [1, 2, 12])
    const { error } = await auth.signInWithPassword({ email, password })
    assert.equal(error, null)
    await until(() => realtime.accessTokenValue !== project.anon_key, 'the client has the new token')
    await settled(listener.channel)
    await write(21)
    await listener.hears(5)
    assert.deepEqual(listener.ids(), [1, 2, 12, 21, 22])
    assert.deepEqual(listener.statuses, ['SUBSCRIBED'])
  })

  test('when a token expires its channels are closed with the reason; one that was refreshed stays', async () => {
    const { anon, sql, table } = stage()
    const name = await table(columns, own)
    const exp = seconds() + 10
    let [token, later] = [tokenOf(ada, { exp }), tokenOf(ada, { exp })]
    const short = anon({ accessToken: async () => token })
    const refreshed = anon({ accessToken: async () => later })
    await Promise.all([short.setAuth(), refreshed.setAuth()])
    const wish = { table: name }
    const [closed, open] = [
      await ear(short, topic(), acknowledged, wish).join(),
      await ear(refreshed, topic(), acknowledged, wish).join(),
    ]
    await sql(`insert into ${name} values (1, '${ada}', '')`)
    await Promise.all([closed.hears(1), open.hears(1)])
    later = tokenOf(ada, { exp: exp + 3600 })
    await refreshed.setAuth()
    await closed.becomes('CLOSED')
    assert.ok(Date.now() >= exp * 1000, 'not before its time')
    const { extension, status } = await closed.isTold(/token has expired/i)
    assert.deepEqual([extension, status], ['system', 'error'])
    assert.deepEqual([closed.statuses, open.statuses], [['SUBSCRIBED', 'CLOSED'], ['SUBSCRIBED']])
    // The socket is still good for a channel with a token of today.
    token = tokenOf(bob)
    await short.setAuth()
    const again = await ear(short, topic(), acknowledged, wish).join()
    await sql(`insert into ${name} values (2, '${ada}', ''), (3, '${bob}', '')`)
    await Promise.all([open.hears(2), again.hears(1)])
    assert.deepEqual([closed.ids(), open.ids(), again.ids()], [[1], [1, 2], [3]])
  })

  const wrong: Record<string, () => string> = {
    expired: () => tokenOf(ada, { exp: seconds() - 10 }),
    'signed with another secret': () => `${tokenOf(ada).slice(0, -6)}AAAAAA`,
    'of a role there is not': () => stage().token({ sub: ada, role: 'postgres' }),
    'no token': () => 'ey.nonsense.x',
  }
  for (const [what, token] of Object.entries(wrong)) {
    test(`a channel is not joined with a token that is ${what}`, async () => {
      const { anon } = stage()
      const client = anon({ accessToken: async () => token() })
      await client.setAuth()
      const reason = await ear(client).refused()
      assert.match(reason, /^(InvalidJWTToken|JwtSignatureError|MalformedJWT|Unauthorized): \S/)
    })

    test(`a joined channel that is given a token that is ${what} is told and closed`, async () => {
      const { anon } = stage()
      const client = anon()
      const [one, elsewhere] = [await ear(client).join(), await ear(anon()).join()]
      await client.setAuth(token())
      await one.becomes('CLOSED')
      const { extension, status, channel } = one.system.at(-1)!
      assert.deepEqual([extension, status, channel], ['system', 'error', one.channel.subTopic])
      assert.deepEqual(elsewhere.statuses, ['SUBSCRIBED'])
    })
  }

  test('a channel joins with the token of its own join, where the client has none', async () => {
    const { anon, sql, table } = stage()
    const name = await table(columns, own)
    const client = anon({ accessToken: async () => null })
    const listener = ear(client, topic(), acknowledged, { table: name })
    listener.channel.updateJoinPayload({ access_token: tokenOf(bob) })
    await listener.join()
    await sql(`insert into ${name} values (1, '${ada}', ''), (2, '${bob}', '')`)
    await listener.hears(1)
    assert.deepEqual(listener.ids(), [2])
  })

  test('who is banned is off the channels they had joined, and joins no other', async () => {
    const { signUp, anon, fetch } = stage()
    const { id, auth } = await signUp()
    const { access_token } = (await auth.getSession()).data.session!
    const client = anon({ accessToken: async () => access_token })
    await client.setAuth()
    const one = await ear(client).join()
    const banned = await fetch(`auth/v1/admin/users/${id}`, {
      method: 'PUT',
      body: JSON.stringify({ ban_duration: '1h' }),
    })
    assert.equal(banned.status, 200)
    await one.becomes('CLOSED', 15_000)
    assert.partialDeepStrictEqual(one.system.at(-1), { extension: 'system', status: 'error' })
    assert.match(await ear(client).refused(), /^InvalidJWTToken: \S/)
  })

  test('a project that is suspended has no clients; they come back with it', async () => {
    const { platform, shape } = stage()
    const own = await setStage(platform, shape)
    const one = await ear(own.anon({ reconnectAfterMs: () => 100 })).join()
    assert.equal((await own.manage('POST', '/suspend')).status, 200)
    await one.becomes('CHANNEL_ERROR', 15_000)
    assert.equal((await own.manage('POST', '/resume')).status, 200)
    await one.joined(2)
  })

  test('keys and secrets that were replaced end what was opened with them', async () => {
    const { platform, shape } = stage()
    const own = await setStage(platform, shape)
    const [byKey, byToken] = [await ear(own.anon()).join(), await ear(await own.user(ada)).join()]
    const rotate = async (what: string) =>
      assert.equal((await own.manage('POST', `/rotate/${what}`)).status, 200, what)
    await rotate('jwt')
    await byToken.becomes('CLOSED', 15_000)
    assert.partialDeepStrictEqual(byToken.system.at(-1), { extension: 'system', status: 'error' })
    assert.deepEqual(byKey.statuses, ['SUBSCRIBED'])
    await rotate('api-keys')
    await byKey.becomes('CHANNEL_ERROR', 15_000)
  })
}
