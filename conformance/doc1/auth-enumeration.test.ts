// Clarifications "Users and mail", case 22: no answer shows which addresses exist.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import {
  type AuthApi,
  assertAuthError,
  authProject,
  noLimits,
  password,
  seen,
  someone,
  succeeded,
} from '../auth.ts'
import { type Target, target } from '../target.ts'
import type { Reply } from '../wire.ts'

let it: Target
let confirming: AuthApi
before(async () => {
  it = await target()
  confirming = await authProject(it, { auto_confirm: false })
})
after(() => it.stop())

/** One address of each state that an attacker might try. */
async function addresses(api: AuthApi): Promise<Record<string, string>> {
  const { email: confirmed } = await api.createUser()
  const { email: unconfirmed } = await api.createUser({ email_confirm: false })
  const { email: withoutPassword } = await api.createUser({ password: undefined })
  const { email: banned } = await api.createUser({ ban_duration: '24h' })
  const { email: deleted, id } = await api.createUser()
  succeeded(await api.admin('DELETE', `/admin/users/${id}`))
  const { email: softlyDeleted, id: softId } = await api.createUser()
  succeeded(await api.admin('DELETE', `/admin/users/${softId}`, { should_soft_delete: true }))
  return { unknown: someone(), confirmed, unconfirmed, withoutPassword, banned, deleted, softlyDeleted }
}

type Request = [path: string, body: (email: string) => Record<string, unknown>]
const byMail: Request[] = [
  ['/otp', email => ({ email, create_user: true })],
  ['/otp', email => ({ email, create_user: false })],
  ['/magiclink', email => ({ email })],
  ['/magic-link', email => ({ email })],
  ['/recover', email => ({ email })],
  ['/resend', email => ({ email, type: 'signup' })],
  ['/resend', email => ({ email, type: 'email_change' })],
]
const byPassword: Request[] = [
  ['/token?grant_type=password', email => ({ email, password: 'wrong password' })],
  ['/sign-in', email => ({ email, password: 'wrong password' })],
  ['/token?grant_type=password', email => ({ email, password: '' })],
]
const byCode: Request[] = [
  ['/verify', email => ({ type: 'email', email, token: '000000' })],
  ['/verify', email => ({ type: 'recovery', email, token: '000000' })],
  ['/verify', email => ({ type: 'signup', email, token: '000000' })],
]

/** The remaining seconds differ between calls. */
const comparable = (reply: Reply) => JSON.stringify(seen(reply)).replace(/\d+ seconds?/g, 'N seconds')

for (const [path, body] of [...byPassword, ...byMail, ...byCode]) {
  const what = `${path} ${JSON.stringify(body('…'))}`
  test(`case 22: ${what} gives every address the same answer`, async () => {
    const answers = new Map<string, string[]>()
    for (const [kind, email] of Object.entries(await addresses(confirming))) {
      const answer = comparable(await confirming.post(path, body(email)))
      answers.set(answer, [...(answers.get(answer) ?? []), kind])
    }
    assert.equal(answers.size, 1, JSON.stringify([...answers], null, 1))
  })
}

test('case 22: a second mail within the interval is 429 for every address', async () => {
  const api = await authProject(it, {
    auto_confirm: false,
    rate_limits: { ...noLimits, mail_interval_seconds: 3600 },
  })
  for (const [path, body] of byMail) {
    const answers = new Map<string, string[]>()
    for (const [kind, email] of Object.entries(await addresses(api))) {
      const first = await api.post(path, body(email))
      const second = await api.post(path, body(email))
      const answer = `${comparable(first)} ${comparable(second)}`
      answers.set(answer, [...(answers.get(answer) ?? []), kind])
      assertAuthError(second, 429, 'over_email_send_rate_limit')
    }
    assert.equal(answers.size, 1, `${path}: ${JSON.stringify([...answers], null, 1)}`)
  }
})

/** A series of requests for known addresses must get the same answers as one for unknown addresses. */
async function assertSameRow(rate_limits: object, known: boolean[], request: Request): Promise<string[]> {
  const rows: string[][] = []
  for (const isKnown of known) {
    const api = await authProject(it, { rate_limits: { ...noLimits, ...rate_limits } })
    const row: string[] = []
    for (let n = 0; n < 4; n++) {
      const email = isKnown ? (await api.createUser()).email : someone()
      row.push(comparable(await api.post(request[0], request[1](email))))
    }
    rows.push(row)
  }
  for (const row of rows) assert.deepEqual(row, rows[0], request[0])
  return rows[0]!
}

test('case 22: the email rate limit counts known and unknown addresses', async () => {
  for (const request of [byMail[1]!, byMail[4]!, byMail[5]!]) {
    const row = await assertSameRow({ email: 2 }, [true, false], request)
    assert.match(row[1]!, /"status":200/)
    assert.match(row[2]!, /"status":429/)
  }
})

test('case 22: the hourly mail limit does not show which addresses exist', async () => {
  for (const request of [byMail[1]!, byMail[4]!]) {
    const row = await assertSameRow({ mail: 2 }, [true, false], request)
    assert.match(row[1]!, /"status":200/)
    assert.match(row[2]!, /"status":429/)
  }
})

test('case 22: the token rate limit counts known and unknown addresses', async () => {
  const row = await assertSameRow({ token: 2 }, [true, false], byPassword[0]!)
  assert.match(row[1]!, /"status":400/)
  assert.match(row[2]!, /"status":429/)
})

test('case 22: without auto_confirm a sign-up is 200 for taken and free addresses', async () => {
  const { unknown, confirmed, unconfirmed } = await addresses(confirming)
  for (const email of [unknown!, confirmed!, unconfirmed!])
    assert.equal((await confirming.post('/signup', { email, password })).status, 200)
})
