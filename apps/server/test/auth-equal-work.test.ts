// Equal work for known and unknown addresses. The tests count the hashes instead of measuring the time.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createHashingLimiter } from '#src/kernel/crypto/hashing-limiter.ts'
import { keyring } from '#src/kernel/crypto/keys.ts'
import { createUserPasswords, type UserPasswords } from '#src/kernel/crypto/password.ts'
import { sealer } from '#src/kernel/crypto/sealed.ts'
import { createRateWindows } from '#src/kernel/http/rate-windows.ts'
import { createLog } from '#src/kernel/log.ts'
import { createConnector } from '#src/kernel/outbound/connect.ts'
import { createOutbound } from '#src/kernel/outbound/fetch.ts'
import { createOwnerWork } from '#src/planes/management/owner-work.ts'
import { authService } from '#src/services/auth/service.ts'
import { createDelivery } from '#src/services/email/delivery.ts'
import { emailService } from '#src/services/email/service.ts'
import type { Tenant } from '#src/tenancy/directory.ts'
import { createSigningKeys } from '#src/tenancy/signing-keys.ts'
import { type AuthProject, authProject } from './auth-project.ts'
import { startPlatform, type TestPlatform } from './harness.ts'

let platform: TestPlatform
let project: AuthProject
let tenant: Tenant
let hashes = 0
const client = { ip: '127.0.0.1', userAgent: undefined }

before(async () => {
  platform = await startPlatform()
  project = await authProject(platform)
  await project.signUp('known@example.test')
  await project.asAdmin('POST', '/admin/users', { email: 'bare@example.test', email_confirm: true })
  await project.asAdmin('POST', '/admin/users', { email: 'open@example.test', password: 'correct horse' })
  tenant = (await platform.app.directory.find(project.id))!
})
after(() => platform.stop())

/** The real service, with a counter around its hashing. */
function countingAuth() {
  const real = createUserPasswords(createHashingLimiter())
  const passwords: UserPasswords = id => ({
    hash: password => {
      hashes++
      return real(id).hash(password)
    },
    verify: (password, stored) => {
      hashes++
      return real(id).verify(password, stored)
    },
  })
  const deriveKey = keyring(platform.controlPlaneSecret)
  const { control, databases, directory, outbox } = platform.app
  const common = { sealer: sealer(deriveKey('sealed')), baseUrl: () => platform.url }
  const owner = createOwnerWork(directory, databases)
  const log = createLog('silent', { write() {} })
  const connector = createConnector({ allow: [] })
  const delivery = createDelivery({ ...common, deployment: undefined, connector })
  return authService({
    ...common,
    databases,
    outbox,
    email: emailService({
      ...common,
      control,
      owner,
      directory,
      delivery,
      connector,
      log,
      outbox,
      wake() {},
    }),
    passwords,
    log,
    windows: createRateWindows(),
    deriveKey,
    outbound: createOutbound(connector),
    directory,
    signingKeys: createSigningKeys(control, directory, common.sealer),
  })
}

for (const [who, email] of [
  ['a known address', 'known@example.test'],
  ['an unknown one', 'nobody@example.test'],
  ['one without a password', 'bare@example.test'],
  ['one that was never confirmed', 'open@example.test'],
  ['what is no address at all', 'not an address'],
])
  test(`auth timing: a wrong password for ${who} costs one hash and gets the same answer`, async () => {
    const auth = countingAuth()
    hashes = 0
    await assert.rejects(auth.signInWithPassword(tenant, email!, 'wrong horse', client), {
      code: 'invalid_credentials',
      status: 400,
      message: 'Invalid login credentials',
    })
    assert.equal(hashes, 1)
  })

test('auth: a password that only differs after 72 bytes is wrong', async () => {
  const auth = countingAuth()
  const email = 'long@example.test'
  const longest = 'x'.repeat(72)
  await project.signUp(email, longest)
  assert.ok(await auth.signInWithPassword(tenant, email, longest, client))
  await assert.rejects(auth.signInWithPassword(tenant, email, `${longest}y`, client), {
    code: 'invalid_credentials',
  })
})

test('auth timing: a sign-up with a known address hashes the password, too', async () => {
  const auth = countingAuth()
  const counted: number[] = []
  for (const email of ['known@example.test', 'new@example.test']) {
    hashes = 0
    await auth
      .signUp(tenant, { email, password: 'another horse' }, 'http://localhost', client)
      .catch(() => {})
    counted.push(hashes)
  }
  assert.deepEqual(counted, [1, 1])
})
