// 2 §4.6 rules 3 and 4, `faults-and-attacks.md` 26 and 28: addresses that are refused, redirects and the test delivery.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { certificateFor } from '../../apps/server/test/certificate.ts'
import { type FreshTarget, freshTarget, type Target } from '../target.ts'
import {
  type Answering,
  answering,
  assertSigned,
  elsewhere,
  localReceivers,
  startReceiver,
  type WebhooksApi,
  webhooksProject,
} from '../webhooks.ts'
import { assertManagementError } from '../wire.ts'

/** Without PLATFORM_OUTBOUND_ALLOW. */
let strict: FreshTarget
/** With it, for receivers on this machine. */
let open: Target
let own: WebhooksApi
let local: WebhooksApi
before(async () => {
  strict = await freshTarget({ WEBHOOK_RETRY_BASE_DELAY: '10ms' })
  own = await webhooksProject(strict)
  open = await freshTarget(localReceivers)
  local = await webhooksProject(open)
})
after(async () => {
  await strict.stop()
  await open.stop()
})

const refusedHosts = {
  loopback: [
    '127.0.0.1',
    '127.0.0.2',
    '127.255.255.255',
    '127.1',
    '127.0.1',
    '0x7f000001',
    '0X7F.0x0.0.1',
    '0177.0.0.1',
    '017700000001',
    '2130706433',
    '127.0.0.1.',
    'localhost',
    'LOCALHOST',
    'localhost.',
    'app.localhost',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
  ],
  unspecified: ['0.0.0.0', '0', '0x0', '0.1.2.3', '[::]', '[0::0]'],
  'IPv4 inside IPv6': [
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[0:0:0:0:0:ffff:127.0.0.1]',
    '[::ffff:10.0.0.1]',
    '[::ffff:169.254.169.254]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
    '[64:ff9b::169.254.169.254]',
    '[2002:7f00:1::]',
    '[2002:a9fe:a9fe::1]',
  ],
  private: [
    '10.0.0.1',
    '10.255.255.255',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.0.1',
    '192.168.255.255',
    '0xa000001',
    '[fc00::1]',
    '[fd12:3456:789a::1]',
  ],
  'shared address space': ['100.64.0.1', '100.100.100.200', '100.127.255.255'],
  'link-local and metadata': [
    '169.254.0.1',
    '169.254.169.254',
    '0xa9fea9fe',
    '2852039166',
    '169.254.43518',
    'metadata.google.internal',
    'metadata.google.internal.',
    'METADATA.google.internal',
    '[fe80::1]',
    '[febf::1]',
    '[fd00:ec2::254]',
  ],
  'multicast and broadcast': ['224.0.0.1', '239.255.255.250', '255.255.255.255', '240.0.0.1', '[ff02::1]'],
  'dots and digits of other scripts': [
    '127。0。0。1',
    '127．0．0．1',
    '127｡0｡0｡1',
    '１２７.0.0.1',
    '①②⑦.⓪.⓪.①',
    '169。254。169。254',
    'ｌｏｃａｌｈｏｓｔ',
  ],
  'percent-encoded': ['%31%32%37.0.0.1', '127%2e0%2e0%2e1', '%6cocalhost'],
}
const refusedUrls = [
  ...Object.values(refusedHosts).flatMap(hosts => hosts.map(host => `http://${host}/`)),
  'https://127.0.0.1/',
  'https://[::1]:8443/',
  'HTTP://127.0.0.1/',
  'http://127.0.0.1:80/',
  'http://127.0.0.1:6379/path?query#fragment',
  'http://ok@127.0.0.1/',
  'http://ok:password@127.0.0.1/',
  'http://93.184.215.14@127.0.0.1/',
  'http://example.com%40@127.0.0.1/',
  'http://127.0.0.1#@example.com/',
  'http://127.0.0.1?@example.com/',
  'http://127.0.0.1\\@example.com/',
  'http://127.0.0.1%2f@10.0.0.1/',
  'http:\\\\127.0.0.1\\',
  'http:127.0.0.1',
  'http:///127.0.0.1/',
  'http://127.0.0.1\t/',
  ' http://127.0.0.1/',
]

test('2 §4.6 rule 3, case 26: a webhook cannot be created with a target that is not public', async () => {
  for (const url of refusedUrls) {
    const reply = await own.hooks('POST', '', { url, events: ['*'] })
    assert.equal(reply.status, 400, `${url}: ${reply.status} ${reply.text}`)
  }
  assert.equal((await own.hooks('GET', '')).body.total, 0)
})

test('2 §4.6 rule 3, case 26: a webhook cannot be changed to a target that is not public', async () => {
  const { id } = await own.create(elsewhere)
  for (const url of refusedUrls) {
    const reply = await own.hooks('PATCH', `/${id}`, { url, description: 'changed' })
    assert.equal(reply.status, 400, `${url}: ${reply.status} ${reply.text}`)
  }
  const read = await own.read(id)
  assert.deepEqual([read.url, read.description], [elsewhere, ''])
  await own.hooks('DELETE', `/${id}`)
})

test('2 §7 a refused target is 400 with its own code', async () => {
  for (const host of [
    '127.0.0.1',
    '0x7f000001',
    '[::1]',
    '10.0.0.1',
    '100.64.0.1',
    '169.254.169.254',
    'localhost',
  ])
    assertManagementError(
      await own.hooks('POST', '', { url: `http://${host}/`, events: ['*'] }),
      'invalid_webhook_url',
    )
})

test('2 §4.6 public addresses next to the refused ranges are accepted', async () => {
  for (const host of [
    '9.255.255.255',
    '11.0.0.1',
    '172.15.255.255',
    '172.32.0.1',
    '100.63.255.255',
    '100.128.0.1',
    '192.167.1.1',
    '169.253.1.1',
    '126.1.1.1',
    '128.1.1.1',
    '[2606:4700::1111]',
  ])
    await own.create(`https://${host}/hook`)
  for (const { id } of (await own.hooks('GET', '?limit=100')).body.webhooks)
    await own.hooks('DELETE', `/${id}`)
})

test('Clarifications: PLATFORM_OUTBOUND_ALLOW exempts its addresses and no others', async () => {
  await local.create('http://127.0.0.1:9/')
  for (const host of ['127.0.0.2', '[::1]', '10.0.0.1', '169.254.169.254'])
    assertManagementError(
      await local.hooks('POST', '', { url: `http://${host}/`, events: ['*'] }),
      'invalid_webhook_url',
    )
})

/** A webhook that was created while its target was allowed, which it no longer is. */
async function createDisallowed(url: string): Promise<any> {
  const node = await strict.join(localReceivers)
  try {
    const path = `/projects/${own.project.id}/webhooks`
    const reply = await node.manage('POST', path, { url, events: ['user.created'] })
    assert.equal(reply.status, 201, reply.text)
    return reply.body
  } finally {
    await node.stop()
  }
}

test('2 §4.6 rule 3: test and dispatch check the target again; the refused attempt is a failed one', async t => {
  const receiver = await startReceiver()
  t.after(receiver.close)
  const { id } = await createDisallowed(receiver.url)
  assertManagementError(await own.hooks('POST', `/${id}/test`), 'invalid_webhook_url')
  await own.createUser()
  const [dead] = await own.ended(id, 'dead_letter')
  assert.equal(dead.attempt_count, 5)
  for (const attempt of dead.attempts) {
    assert.equal(attempt.status_code, null)
    assert.match(attempt.error, /\w/)
  }
  const retried = await own.hooks('POST', `/${id}/deliveries/${dead.id}/retry`)
  assert.equal(retried.status, 202, retried.text)
  await own.ended(id, 'dead_letter')
  assert.equal(receiver.received.length, 0)
  await own.hooks('DELETE', `/${id}`)
})

test('Case 26 and 28: redirects are not followed', async t => {
  const goal = await startReceiver()
  t.after(goal.close)
  for (const location of [goal.url, 'http://169.254.169.254/latest/meta-data/', '/again'])
    for (const status of [301, 302, 303, 307, 308]) {
      const receiver = await startReceiver(answering(status, 'moved', { location }))
      t.after(receiver.close)
      const { id } = await local.create(receiver.url, ['user.created'])
      const { body } = await local.hooks('POST', `/${id}/test`)
      assert.partialDeepStrictEqual(body, { success: false, status_code: status, response_body: 'moved' })
      assert.equal(receiver.received.length, 1)
      await local.hooks('DELETE', `/${id}`)
    }
  const receiver = await startReceiver(answering(302, 'moved', { location: goal.url }))
  t.after(receiver.close)
  const { id } = await local.create(receiver.url, ['user.created'])
  await local.createUser()
  const [dead] = await local.ended(id, 'dead_letter')
  assert.deepEqual(
    dead.attempts.map((attempt: any) => attempt.status_code),
    [302, 302, 302, 302, 302],
  )
  assert.equal(receiver.received.length, 5)
  assert.equal(goal.received.length, 0)
  await local.hooks('DELETE', `/${id}`)
})

const testFields = ['error', 'latency_ms', 'response_body', 'status_code', 'success']
async function testOf(wid: string): Promise<any> {
  const { status, body, text } = await local.hooks('POST', `/${wid}/test`)
  assert.equal(status, 200, text)
  assert.deepEqual(Object.keys(body).sort(), testFields)
  assert.ok(Number.isInteger(body.latency_ms) && body.latency_ms >= 0)
  return body
}

test('2 §4.6 a test delivery is signed and returns the answer of the receiver', async t => {
  const receiver = await startReceiver(answering(201, 'thanks'))
  t.after(receiver.close)
  const { id, secret } = await local.create(receiver.url, ['user.deleted'])
  const { latency_ms: _, ...result } = await testOf(id)
  assert.deepEqual(result, { success: true, status_code: 201, response_body: 'thanks', error: null })
  await testOf(id)
  assert.equal(receiver.received.length, 2)
  for (const delivered of receiver.received) {
    assertSigned(delivered, secret)
    assert.equal(delivered.body.project_id, local.project.id)
  }
  const [first, second] = receiver.received.map(({ headers }) => headers['x-webhook-id'])
  assert.notEqual(first, second)
})

test('2 §4.6 a failed test delivery is not retried', async t => {
  const failures: [Answering, number | null][] = [
    [answering(500, 'no'), 500],
    [answering(404, 'x'.repeat(100_000)), 404],
    [response => void response.socket!.destroy(), null],
    [response => void response.socket!.end('not HTTP\r\n'), null],
  ]
  for (const [answer, status] of failures) {
    const receiver = await startReceiver(answer)
    t.after(receiver.close)
    const { id } = await local.create(receiver.url, ['user.deleted'])
    const result = await testOf(id)
    assert.partialDeepStrictEqual(result, { success: false, status_code: status })
    if (status === null) assert.match(result.error, /\w/)
    else assert.ok(result.response_body.length <= 1024)
    assert.equal(receiver.received.length, 1)
    assert.deepEqual(await local.deliveries(id, '&status=pending'), [])
  }
  const closed = await startReceiver()
  closed.close()
  const result = await testOf((await local.create(closed.url)).id)
  assert.partialDeepStrictEqual(result, { success: false, status_code: null, response_body: null })
  assert.match(result.error, /\w/)
})

test('Case 28: a receiver whose TLS certificate is not valid gets nothing', async t => {
  const receiver = await startReceiver(answering(200, 'ok'), certificateFor('127.0.0.1'))
  t.after(receiver.close)
  const { id } = await local.create(receiver.url, ['user.created'])
  const result = await testOf(id)
  assert.partialDeepStrictEqual(result, { success: false, status_code: null })
  assert.match(result.error, /TLS|certificate/i)
  await local.createUser()
  const [dead] = await local.ended(id, 'dead_letter')
  assert.equal(dead.attempt_count, 5)
  assert.equal(receiver.received.length, 0)
})
