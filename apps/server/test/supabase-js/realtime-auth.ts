// Tokens on an open socket: set, refreshed, revoked, invalid and expired.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { eventually } from '../eventually.ts'
import {
  ada,
  bob,
  createFixture,
  type Fixture,
  newSubscriber,
  password,
  settled,
  topic,
} from './realtime-fixture.ts'

const columns = 'id int primary key, owner uuid, label text'
const own = `using (owner = auth.uid() or label = 'public')`
const acknowledged = { broadcast: { ack: true } }
const seconds = () => Math.floor(Date.now() / 1000)

export function authTests(fixture: () => Fixture): void {
  const tokenOf = (sub: string, more: object = {}) => fixture().token({ sub, role: 'authenticated', ...more })

  test('realtime auth: a token set on a joined channel applies to later changes', async () => {
    const { anon, sql, table } = fixture()
    const name = await table(columns, own)
    const client = anon()
    const subscriber = await newSubscriber(client, topic(), acknowledged, { table: name }).join()
    const write = (id: number) =>
      sql(
        `insert into ${name} values (${id}, '${ada}', ''), (${id + 1}, '${bob}', ''), (${id + 2}, null, 'public')`,
      )
    await write(1)
    await subscriber.receivesChanges(1)
    await client.setAuth(tokenOf(ada))
    await settled(subscriber.channel)
    await write(11)
    await subscriber.receivesChanges(3)
    await client.setAuth(tokenOf(bob))
    await settled(subscriber.channel)
    await write(21)
    await subscriber.receivesChanges(5)
    assert.deepEqual(subscriber.ids(), [3, 11, 13, 22, 23])
    assert.deepEqual(subscriber.statuses, ['SUBSCRIBED'])
  })

  test('realtime auth: a token applies to all channels of the socket, also to later ones', async () => {
    const { anon, sql, table } = fixture()
    const name = await table(columns, own)
    const client = anon({ accessToken: async () => tokenOf(ada) })
    await client.setAuth()
    const subscribers = [await newSubscriber(client, topic(), acknowledged, { table: name }).join()]
    subscribers.push(await newSubscriber(client, topic(), acknowledged, { table: name }).join())
    await sql(`insert into ${name} values (1, '${ada}', ''), (2, '${bob}', ''), (3, null, 'public')`)
    for (const subscriber of subscribers) {
      await subscriber.receivesChanges(2)
      assert.deepEqual(subscriber.ids(), [1, 3])
    }
  })

  test('realtime auth: the client requests a new token with every heartbeat', async () => {
    const { anon, sql, table } = fixture()
    const name = await table(columns, own)
    let token = tokenOf(ada)
    const client = anon({ accessToken: async () => token, heartbeatIntervalMs: 1000 })
    await client.setAuth()
    const subscriber = await newSubscriber(client, topic(), acknowledged, { table: name }).join()
    await sql(`insert into ${name} values (1, '${ada}', '')`)
    await subscriber.receivesChanges(1)
    token = tokenOf(bob)
    await eventually(() => client.accessTokenValue === token, 'the next heartbeat')
    await settled(subscriber.channel)
    await sql(`insert into ${name} values (2, '${ada}', ''), (3, '${bob}', '')`)
    await subscriber.receivesChanges(2)
    assert.deepEqual(subscriber.ids(), [1, 3])
  })

  test('realtime auth: a refreshed session applies its new claims', async () => {
    const { signUp, sql, table, fetch } = fixture()
    const name = await table(columns, `using (label in (auth.jwt() -> 'app_metadata' ->> 'team', 'all'))`)
    const { id, realtime, auth } = await signUp()
    const subscriber = await newSubscriber(realtime, topic(), acknowledged, { table: name }).join()
    const promoted = await fetch(`auth/v1/admin/users/${id}`, {
      method: 'PUT',
      body: JSON.stringify({ app_metadata: { team: 'red' } }),
    })
    assert.equal(promoted.status, 200)
    await sql(`insert into ${name} (id, label) values (1, 'red'), (2, 'all')`)
    await subscriber.receivesChanges(1)
    const before = realtime.accessTokenValue
    const { error } = await auth.refreshSession()
    assert.equal(error, null)
    await eventually(() => realtime.accessTokenValue !== before, 'the client has the new token')
    await settled(subscriber.channel)
    await sql(`insert into ${name} (id, label) values (3, 'blue'), (4, 'red')`)
    await subscriber.receivesChanges(2)
    assert.deepEqual(subscriber.ids(), [2, 4])
  })

  test('realtime auth: after sign-out the client receives changes as anon, after sign-in as the user', async () => {
    const { signUp, project, sql, table } = fixture()
    const name = await table(columns, own)
    const { id, email, realtime, auth } = await signUp()
    const subscriber = await newSubscriber(realtime, topic(), acknowledged, { table: name }).join()
    const write = (first: number) =>
      sql(`insert into ${name} values (${first}, '${id}', ''), (${first + 1}, null, 'public')`)
    await write(1)
    await subscriber.receivesChanges(2)
    await auth.signOut()
    await eventually(
      () => realtime.accessTokenValue === project.anon_key,
      'the client has let go of the token',
    )
    await settled(subscriber.channel)
    await write(11)
    await subscriber.receivesChanges(3)
    assert.deepEqual(subscriber.ids(), [1, 2, 12])
    const { error } = await auth.signInWithPassword({ email, password })
    assert.equal(error, null)
    await eventually(() => realtime.accessTokenValue !== project.anon_key, 'the client has the new token')
    await settled(subscriber.channel)
    await write(21)
    await subscriber.receivesChanges(5)
    assert.deepEqual(subscriber.ids(), [1, 2, 12, 21, 22])
    assert.deepEqual(subscriber.statuses, ['SUBSCRIBED'])
  })

  test('realtime auth: an expired token closes its channels with the reason, a refreshed one keeps them open', async () => {
    const { anon, sql, table } = fixture()
    const name = await table(columns, own)
    const exp = seconds() + 10
    let [token, later] = [tokenOf(ada, { exp }), tokenOf(ada, { exp })]
    const short = anon({ accessToken: async () => token })
    const refreshed = anon({ accessToken: async () => later })
    await Promise.all([short.setAuth(), refreshed.setAuth()])
    const binding = { table: name }
    const [closed, open] = [
      await newSubscriber(short, topic(), acknowledged, binding).join(),
      await newSubscriber(refreshed, topic(), acknowledged, binding).join(),
    ]
    await sql(`insert into ${name} values (1, '${ada}', '')`)
    await Promise.all([closed.receivesChanges(1), open.receivesChanges(1)])
    later = tokenOf(ada, { exp: exp + 3600 })
    await refreshed.setAuth()
    await closed.reachesStatus('CLOSED')
    assert.ok(Date.now() >= exp * 1000, 'not before the token expires')
    const { extension, status } = await closed.receivesSystem(/token has expired/i)
    assert.deepEqual([extension, status], ['system', 'error'])
    assert.deepEqual([closed.statuses, open.statuses], [['SUBSCRIBED', 'CLOSED'], ['SUBSCRIBED']])
    // The socket still accepts a channel with a valid token.
    token = tokenOf(bob)
    await short.setAuth()
    const again = await newSubscriber(short, topic(), acknowledged, binding).join()
    await sql(`insert into ${name} values (2, '${ada}', ''), (3, '${bob}', '')`)
    await Promise.all([open.receivesChanges(2), again.receivesChanges(1)])
    assert.deepEqual([closed.ids(), open.ids(), again.ids()], [[1], [1, 2], [3]])
  })

  const wrong: Record<string, () => string> = {
    expired: () => tokenOf(ada, { exp: seconds() - 10 }),
    'signed with another secret': () => `${tokenOf(ada).slice(0, -6)}AAAAAA`,
    'of a role there is not': () => fixture().token({ sub: ada, role: 'postgres' }),
    'no token': () => 'ey.nonsense.x',
  }
  for (const [what, token] of Object.entries(wrong)) {
    test(`realtime auth: a join with a token that is ${what} is rejected`, async () => {
      const { anon } = fixture()
      const client = anon({ accessToken: async () => token() })
      await client.setAuth()
      const reason = await newSubscriber(client).joinError()
      assert.match(reason, /^(InvalidJWTToken|JwtSignatureError|MalformedJWT|Unauthorized): \S/)
    })

    test(`realtime auth: a joined channel that gets a token that is ${what} is closed with an error`, async () => {
      const { anon } = fixture()
      const client = anon()
      const [one, elsewhere] = [await newSubscriber(client).join(), await newSubscriber(anon()).join()]
      await client.setAuth(token())
      await one.reachesStatus('CLOSED')
      const { extension, status, channel } = one.system.at(-1)!
      assert.deepEqual([extension, status, channel], ['system', 'error', one.channel.subTopic])
      assert.deepEqual(elsewhere.statuses, ['SUBSCRIBED'])
    })
  }

  test('realtime auth: a join uses its own token if the client has none', async () => {
    const { anon, sql, table } = fixture()
    const name = await table(columns, own)
    const client = anon({ accessToken: async () => null })
    const subscriber = newSubscriber(client, topic(), acknowledged, { table: name })
    subscriber.channel.updateJoinPayload({ access_token: tokenOf(bob) })
    await subscriber.join()
    await sql(`insert into ${name} values (1, '${ada}', ''), (2, '${bob}', '')`)
    await subscriber.receivesChanges(1)
    assert.deepEqual(subscriber.ids(), [2])
  })

  test('realtime auth: a banned user loses the joined channels and cannot join others', async () => {
    const { signUp, anon, fetch } = fixture()
    const { id, auth } = await signUp()
    const { access_token } = (await auth.getSession()).data.session!
    const client = anon({ accessToken: async () => access_token })
    await client.setAuth()
    const one = await newSubscriber(client).join()
    const banned = await fetch(`auth/v1/admin/users/${id}`, {
      method: 'PUT',
      body: JSON.stringify({ ban_duration: '1h' }),
    })
    assert.equal(banned.status, 200)
    await one.reachesStatus('CLOSED')
    assert.partialDeepStrictEqual(one.system.at(-1), { extension: 'system', status: 'error' })
    assert.match(await newSubscriber(client).joinError(), /^InvalidJWTToken: \S/)
  })

  test('realtime auth: suspending a project disconnects its clients, and they return when it is resumed', async () => {
    const { platform, shape } = fixture()
    const own = await createFixture(platform, shape)
    const one = await newSubscriber(own.anon({ reconnectAfterMs: () => 100 })).join()
    assert.equal((await own.manage('POST', '/suspend')).status, 200)
    await one.reachesStatus('CHANNEL_ERROR')
    assert.equal((await own.manage('POST', '/resume')).status, 200)
    await one.joined(2)
  })

  test('realtime auth: replaced keys and secrets close what was opened with them', async () => {
    const { platform, shape } = fixture()
    const own = await createFixture(platform, shape)
    const [byKey, byToken] = [
      await newSubscriber(own.anon()).join(),
      await newSubscriber(await own.user(ada)).join(),
    ]
    const rotate = async (what: string) =>
      assert.equal((await own.manage('POST', `/rotate/${what}`)).status, 200, what)
    await rotate('jwt')
    await byToken.reachesStatus('CLOSED')
    assert.partialDeepStrictEqual(byToken.system.at(-1), { extension: 'system', status: 'error' })
    assert.deepEqual(byKey.statuses, ['SUBSCRIBED'])
    await rotate('api-keys')
    await byKey.reachesStatus('CHANNEL_ERROR')
  })
}
