// Starts on a data directory of an old release (fixtures/make-data-directory.ts) and finds everything that was stored.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { stepSeconds, totpCode } from '#src/services/auth/mfa/totp.ts'
import { connectAsSuperuser } from './data-dir.ts'
import { eventually } from './eventually.ts'
import { assertAnswersAsBefore, assertKept } from './fixtures/answers.ts'
import {
  baseUrl,
  bytesOf,
  type Facts,
  password,
  unpackOldDataDirectory,
} from './fixtures/old-data-directory.ts'
import { type CallOptions, call, type Reply } from './harness.ts'
import { openMailbox } from './mailbox.ts'
import { manage, platformProcesses, type RunningPlatform, stop } from './platform-process.ts'
import { subscribe } from './realtime-subscriber.ts'

const { start, newDataDir } = platformProcesses()
const env = { PLATFORM_BASE_URL: baseUrl, PLATFORM_OUTBOUND_ALLOW: '127.0.0.0/8' }

interface Upgraded {
  facts: Facts
  platform: RunningPlatform
  send(method: string, path: string, options?: CallOptions): Promise<Reply>
}

async function upgraded(name: string): Promise<Upgraded> {
  const dataDir = newDataDir(name)
  const facts = unpackOldDataDirectory(dataDir)
  const platform = await start({ dataDir, env })
  const send: Upgraded['send'] = (method, path, options = {}) => call(platform.url + path, method, options)
  const started = { facts, platform, send }
  await untilUpgraded(started)
  return started
}

const ok = ({ status, body }: Reply): any => {
  assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
  return body
}

/** The migrations of every database and when they were applied. */
async function appliedMigrations(dataDir: string): Promise<Record<string, unknown[]>> {
  const control = await connectAsSuperuser(dataDir)
  const { rows } = await control.query(`select ref from projects where status <> 'deleted' order by ref`)
  const applied: Record<string, unknown[]> = {
    plinth: (await control.query('select * from migrations order by name')).rows,
    projects: (await control.query('select id, schema_version, updated_at from projects order by id')).rows,
  }
  await control.end()
  for (const { ref } of rows) {
    const project = await connectAsSuperuser(dataDir, ref)
    applied[ref] = (await project.query('select * from platform.migrations order by name')).rows
    await project.end()
  }
  return applied
}

async function untilUpgraded({ platform }: Upgraded): Promise<void> {
  await eventually(async () => {
    const { warnings } = ok(await manage(platform, 'GET', '/health/services'))
    assert.doesNotMatch(warnings.join(), /could not be upgraded/)
    return !warnings.join().includes('waiting to be upgraded')
  }, 'every project is upgraded')
}

test('old data directory: every answer is as before, and a second start changes nothing', async () => {
  const first = await upgraded('answers')
  const { facts, platform } = first
  const { entries } = ok(await manage(platform, 'GET', '/admin/audit?limit=100'))
  assertKept(entries.slice(-facts.audit.length), facts.audit, 'audit')
  await assertAnswersAsBefore(first)

  const { dataDir } = platform
  const applied = await appliedMigrations(dataDir)
  await stop(platform)
  const again = { ...first, platform: await start({ dataDir, env }) }
  await assertAnswersAsBefore(again)
  assert.deepEqual(await appliedMigrations(dataDir), applied)
})

async function assertUsersKept({ facts, platform, send }: Upgraded): Promise<void> {
  const { shop, club } = facts.projects
  const auth = (path: string, body: unknown, token?: string) =>
    send('POST', `/v1/auth/${shop.id}/${path}`, {
      apikey: shop.anon_key,
      body,
      ...(token !== undefined && { token }),
    })
  const refresh = async (refreshToken: string) =>
    ok(await auth('token?grant_type=refresh_token', { refresh_token: refreshToken }))

  const session = await refresh(facts.ada.refreshToken)
  assert.equal(session.user.id, facts.ada.id)
  const notes = ok(
    await send('GET', `/v1/rest/${shop.id}/notes?order=id`, {
      apikey: shop.anon_key,
      token: session.access_token,
    }),
  )
  assert.deepEqual(
    notes.map(({ body }: { body: string }) => body),
    ['buy milk', 'call Bert'],
  )
  assert.equal((await refresh(facts.anonymous.refreshToken)).user.user_metadata.cart, 3)
  assert.equal(claimsOf((await refresh(facts.dora.refreshToken)).access_token).aal, 'aal2')

  const signIn = (email: string) => auth('sign-in', { email, password })
  for (const { email } of [facts.ada, facts.dora, facts.imported])
    assert.equal(ok(await signIn(email)).user.email, email)
  assert.equal((await signIn(facts.bert.email)).body.error_code, 'email_not_confirmed')
  assert.equal((await signIn(facts.banned.email)).body.error_code, 'user_banned')
  assert.equal((await signIn('greta@users.example.test')).status, 400, 'a deleted user stays deleted')

  const dora = ok(await signIn(facts.dora.email))
  const factor = `factors/${facts.dora.factorId}`
  const challenge = ok(await auth(`${factor}/challenge`, undefined, dora.access_token))
  const code = totpCode(facts.dora.secret, Math.floor(Date.now() / 1000 / stepSeconds))
  const verified = ok(await auth(`${factor}/verify`, { challenge_id: challenge.id, code }, dora.access_token))
  assert.equal(claimsOf(verified.access_token).aal, 'aal2')

  const { bert, fay } = facts
  assert.equal(
    ok(await auth('verify', { type: 'signup', email: bert.email, token: bert.code })).user.email,
    bert.email,
  )
  assert.equal(ok(await auth('verify', { type: 'invite', token_hash: fay.linkToken })).user.email, fay.email)
  ok(await signIn(bert.email))

  // The settings: no confirmation by sign-up, passwords of eight characters.
  const short = await auth('sign-up', { email: 'new@users.example.test', password: '1234567' })
  assert.equal(short.body.error_code, 'weak_password')
  assert.equal(
    ok(await auth('sign-up', { email: 'new@users.example.test', password })).access_token,
    undefined,
  )
  const authorize = await send('GET', `/v1/auth/${shop.id}/authorize?provider=github`)
  assert.equal(new URL(authorize.headers.get('location')!).searchParams.get('client_id'), 'shop-client')

  const events = await authEvents(platform.dataDir, shop.id)
  for (const event of facts.authEvents)
    assert.deepEqual(
      events.find(({ id }) => id === event.id),
      event,
    )
  assert.equal((await send('GET', `/v1/whoami/${club.id}`, { apikey: club.anon_key })).status, 200)
}

const claimsOf = (token: string) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())

async function authEvents(dataDir: string, projectId: string): Promise<{ id: string }[]> {
  const control = await connectAsSuperuser(dataDir)
  const { rows } = await control.query('select ref from projects where id = $1', [projectId])
  await control.end()
  const project = await connectAsSuperuser(dataDir, rows[0].ref)
  const found = await project.query('select id, type, user_id, email from auth.events')
  await project.end()
  return found.rows
}

/** The provider receives the client secret that was stored. */
async function assertProviderSecretKept({ facts, platform, send }: Upgraded): Promise<void> {
  const { shop } = facts.projects
  const received = Promise.withResolvers<string>()
  const provider = createServer((request, response) => {
    text(request).then(received.resolve, received.reject)
    response.writeHead(400).end()
  })
  provider.listen(0, '127.0.0.1')
  await once(provider, 'listening')
  try {
    const { port } = provider.address() as AddressInfo
    const settings = { provider: 'github', client_id: 'shop-client', token_url: `http://127.0.0.1:${port}/` }
    ok(await manage(platform, 'PUT', `/projects/${shop.id}/auth/providers`, settings))
    const authorize = await send('GET', `/v1/auth/${shop.id}/authorize?provider=github`)
    const state = new URL(authorize.headers.get('location')!).searchParams.get('state')
    const cookie = authorize.headers
      .getSetCookie()
      .map(each => each.split(';')[0])
      .join('; ')
    await send('GET', `/v1/auth/${shop.id}/callback?code=any&state=${state}`, { headers: { cookie } })
    const sent = new URLSearchParams(await received.promise)
    assert.equal(sent.get('client_secret'), 'a secret of the provider')
  } finally {
    provider.close()
  }
}

async function assertFilesKept({ facts, send, platform }: Upgraded): Promise<void> {
  const { shop, club } = facts.projects
  const apikey = shop.service_role_key
  const download = async (path: string, headers: Record<string, string> = {}) => {
    const reply = await fetch(platform.url + path, { headers })
    const bytes = Buffer.from(await reply.arrayBuffer())
    assert.equal(reply.status, 200, `${path}: ${bytes.subarray(0, 300)}`)
    return bytes
  }
  const storage = `/v1/storage/${shop.id}`
  const dot = await download(`${storage}/object/public/pictures/dot.png`)
  assert.equal(dot.subarray(1, 4).toString(), 'PNG')
  assert.ok((await download(`${storage}/render/image/public/pictures/dot.png?width=8`)).length > 0)
  assert.deepEqual(
    await download(`${storage}/object/papers/2026/large.bin`, { apikey }),
    bytesOf('large', 200_000),
  )
  assert.equal((await download(`${storage}/object/papers/empty.txt`, { apikey })).length, 0)
  assert.equal(String(await download(`/v1/storage/${shop.id}${facts.signedUrl}`)), 'second draft')
  const clubKey = { apikey: club.service_role_key }
  assert.equal(String(await download(`/v1/storage/${club.id}/object/records/elo.txt`, clubKey)), '2735')

  const session = ok(
    await send('POST', `/v1/auth/${shop.id}/sign-in`, {
      apikey: shop.anon_key,
      body: { email: facts.ada.email, password },
    }),
  )
  const asAda = { apikey: shop.anon_key, authorization: `Bearer ${session.access_token}` }
  const diary = await download(`${storage}/object/user-files/${facts.ada.id}/diary.txt`, asAda)
  assert.equal(String(diary), 'dear diary')
  assert.equal(String(await download(`${storage}/object/papers/draft.txt`, asAda)), 'second draft')
  const stranger = { headers: { apikey: shop.anon_key } }
  assert.equal((await fetch(`${platform.url}${storage}/object/papers/draft.txt`, stranger)).ok, false)

  const { id, size, sent } = facts.upload
  const upload = `${platform.url}${storage}/upload/resumable/${id}`
  const tus = { apikey, 'tus-resumable': '1.0.0' }
  const head = await fetch(upload, { method: 'HEAD', headers: tus })
  assert.deepEqual([head.status, head.headers.get('upload-offset')], [200, String(sent)])
  const rest = await fetch(upload, {
    method: 'PATCH',
    headers: { ...tus, 'content-type': 'application/offset+octet-stream', 'upload-offset': String(sent) },
    body: new Uint8Array(bytesOf('resumable', size).subarray(sent)),
  })
  assert.equal(rest.status, 204, await rest.text())
  assert.deepEqual(
    await download(`${storage}/object/papers/resumed.bin`, { apikey }),
    bytesOf('resumable', size),
  )
}

async function assertServicesContinue({ facts, platform, send }: Upgraded): Promise<void> {
  const { shop } = facts.projects
  const apikey = shop.service_role_key
  const service = async (method: string, path: string, body?: unknown) =>
    ok(await send(method, path, { apikey, body }))
  const orders = `/v1/queue/${shop.id}/queues/orders`
  const { queue_length, queue_visible_length, total_messages } = await service('GET', `${orders}/metrics`)
  assert.deepEqual([queue_length, queue_visible_length, total_messages], [4, 2, 6])
  const { waiting, archived } = facts.messages
  const read = await service('POST', `${orders}/read`, { vt: 60, qty: 10 })
  assert.deepEqual(
    read.map(({ msg_id }: { msg_id: number }) => msg_id),
    waiting,
  )
  assert.deepEqual(read[0].headers, { from: 'till 1' })
  assert.equal((await service('POST', `${orders}/ack`, { msg_id: waiting[0] })).acked, true)
  assert.equal((await service('POST', `${orders}/replay`, { msg_id: archived[0] })).replayed, true)
  assert.deepEqual((await service('POST', `${orders}/pop`)).message, { order: 'archived' })
  assert.equal((await service('POST', `${orders}/send`, { message: 'next' })).msg_id, 7)

  const jobs = `/v1/cron/${shop.id}/jobs`
  const known = (await service('GET', jobs)).map(({ name, schedule }: Record<string, string>) => [
    name,
    schedule,
  ])
  assert.deepEqual(known.sort(), [
    ['count products', '0 0 29 2 *'],
    ['fails', '0 0 29 2 *'],
    ['heartbeat', '1 seconds'],
  ])
  const ticks = async () =>
    (await service('GET', `/v1/rest/${shop.id}/stock_log?product=eq.clock&select=id`)).length
  const before = await ticks()
  await eventually(async () => (await ticks()) > before, 'the job runs again')

  const products = `/v1/rest/${shop.id}/products`
  const { changes, leave } = await subscribe(platform, shop, { table: 'products' })
  const added = await send('POST', products, {
    apikey,
    body: { name: 'Saw', price: 8, discount: 50 },
    headers: { prefer: 'return=representation' },
  })
  const { id, reduced, doubled } = ok(added)[0]
  assert.deepEqual([id, reduced, doubled], [5, 4, 16])
  const [noted] = await service('GET', `/v1/rest/${shop.id}/stock_log?product=eq.Saw`)
  assert.equal(noted.note, 'INSERT')
  await eventually(() => changes.includes('INSERT 5'), 'a subscriber receives the change')
  await leave()

  const cache = `/v1/cache/${shop.id}`
  assert.equal((await send('GET', `${cache}/get/lost`, { apikey })).status, 404)
  await service('POST', `${cache}/set`, { key: 'kept', value: 'now' })
  assert.equal((await service('GET', `${cache}/get/kept`)).value, 'now')
}

async function assertTeamKept({ facts, platform, send }: Upgraded): Promise<void> {
  const { shop, club, gone } = facts.projects
  const login = (name: keyof Facts['platformUsers']) =>
    send('POST', '/api/v1/platform/login', { body: { email: facts.platformUsers[name].email, password } })
  const asked = async (token: string, id: string) =>
    (await send('GET', `/api/v1/projects/${id}`, { token })).status
  const described = async (token: string, id: string) =>
    (await send('PATCH', `/api/v1/projects/${id}`, { token, body: { description: 'new' } })).status

  const owner = ok(await login('owner')).token
  const developer = ok(await login('developer')).token
  assert.deepEqual([await asked(owner, shop.id), await described(owner, shop.id)], [200, 200])
  assert.deepEqual([await asked(developer, shop.id), await described(developer, shop.id)], [200, 403])
  assert.equal(await asked(owner, club.id), 403)
  assert.equal((await login('inactive')).status, 401)

  const invited = ok(await login('invited')).token
  const accept = { token: invited, body: { token: facts.inviteToken } }
  assert.equal(ok(await send('POST', '/api/v1/invites/accept', accept)).role, 'admin')
  assert.equal(await asked(invited, shop.id), 200)

  const { admin, read, revoked } = facts.platformTokens
  assert.deepEqual([await asked(admin, club.id), await described(admin, club.id)], [200, 200])
  assert.deepEqual([await asked(read, club.id), await described(read, club.id)], [200, 403])
  assert.equal(await asked(revoked, club.id), 401)

  assert.equal((await manage(platform, 'GET', `/projects/${gone.id}`)).status, 404)
  assert.equal((await manage(platform, 'POST', '/projects', { name: 'Again', slug: gone.slug })).status, 201)
  assert.equal((await manage(platform, 'POST', '/projects', { name: 'Taken', slug: shop.slug })).status, 409)
}

async function assertSuspendedKept({ facts, platform, send }: Upgraded): Promise<void> {
  const { paused } = facts.projects
  const plans = () => send('GET', `/v1/rest/${paused.id}/plans`, { apikey: paused.service_role_key })
  assert.equal((await plans()).body.code, 'project_suspended')

  const mailbox = await openMailbox({
    onAuth: ({ username, password: sent }, _session, done) =>
      sent === 'the password of the mail server' ? done(null, { user: username }) : done(new Error('wrong')),
  })
  try {
    const { host, port } = mailbox
    const smtp = { host, port, username: 'postmaster', encryption: 'none' }
    ok(await manage(platform, 'PUT', `/projects/${paused.id}/email/smtp`, smtp))
    ok(await manage(platform, 'POST', `/projects/${paused.id}/resume`))
    assert.deepEqual(ok(await plans()), [{ id: 1, what: 'skating' }])
    const mail = await mailbox.next('ida@users.example.test')
    assert.equal(mail.user, 'postmaster')
  } finally {
    await mailbox.stop()
  }
}

test('old data directory: users, files, queues, jobs, people and mail of the time are usable', async () => {
  const here = await upgraded('usable')
  await assertUsersKept(here)
  await assertProviderSecretKept(here)
  await assertFilesKept(here)
  await assertServicesContinue(here)
  await assertTeamKept(here)
  await assertSuspendedKept(here)
  await stop(here.platform)
})
