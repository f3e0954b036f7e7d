// 1 §7 and auth contract §1: what a browser needs to call the data plane, and requests meant to break it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CreatedProject, createProject, someId, unlimited, userJwt } from '../people.ts'
import { type Target, target } from '../target.ts'
import { assertRequestId, type Reply, sendBytes } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it, { quotas: unlimited })
})
after(() => it.stop())

const origin = 'https://app.example.test'
const listOf = (reply: Reply, name: string) =>
  (reply.headers.get(name) ?? '').split(',').map(each => each.trim().toLowerCase())
const whoami = (headers: Record<string, string> = {}) =>
  it.call('GET', `/v1/whoami/${project.id}`, { apikey: project.anon_key, headers })

function assertIncludes(list: string[], wanted: string[], header: string): void {
  for (const each of wanted) assert.ok(list.includes(each) || list.includes('*'), `${header} lacks ${each}`)
}

const requestHeaders = [
  'authorization',
  'apikey',
  'content-type',
  'x-client-info',
  'x-supabase-api-version',
  'prefer',
  'range',
  'accept-profile',
  'content-profile',
  'x-upsert',
  'x-region',
  'x-retry-count',
  'cache-control',
  'traceparent',
  'tracestate',
  'baggage',
  'tus-resumable',
  'upload-length',
  'upload-offset',
  'upload-metadata',
]
const exposedHeaders = [
  'x-supabase-api-version',
  'x-total-count',
  'link',
  'content-range',
  'x-sb-error-code',
  'location',
  'tus-resumable',
  'upload-offset',
  'upload-length',
]

const shapes: Record<string, () => string> = {
  native: () => `/v1/whoami/${project.id}`,
  alias: () => `/v1/${project.id}/whoami/v1`,
  'a service to come': () => `/v1/${project.id}/rest/v1/table`,
  'an unknown project': () => `/v1/rest/${someId}/table`,
}
for (const [shape, pathOf] of Object.entries(shapes))
  for (const method of ['GET', 'POST', 'PATCH', 'PUT', 'DELETE', 'HEAD'])
    test(`1 §7 a preflight for ${method} on ${shape} passes without a credential`, async () => {
      const reply = await it.call('OPTIONS', pathOf(), {
        headers: {
          origin,
          'access-control-request-method': method,
          'access-control-request-headers': requestHeaders.join(', '),
        },
      })
      assert.ok([200, 204].includes(reply.status), `${reply.status}`)
      assert.ok(['*', origin].includes(reply.headers.get('access-control-allow-origin') ?? ''))
      assertIncludes(listOf(reply, 'access-control-allow-methods'), [method.toLowerCase()], 'allow-methods')
      assertIncludes(listOf(reply, 'access-control-allow-headers'), requestHeaders, 'allow-headers')
      assertRequestId(reply)
    })

test('1 §7 every header that a browser may send is listed, because * does not cover Authorization', async () => {
  const reply = await it.call('OPTIONS', `/v1/whoami/${project.id}`, {
    headers: {
      origin,
      'access-control-request-method': 'GET',
      'access-control-request-headers': 'authorization',
    },
  })
  assert.ok(listOf(reply, 'access-control-allow-headers').includes('authorization'))
})

test('1 §7 responses and errors can be read from another origin', async () => {
  const suspended = await createProject(it)
  await it.manage('POST', `/projects/${suspended.id}/suspend`)
  const limited = await createProject(it, { quotas: { rate_limit_anon: 1 } })
  const headers = { origin }
  const limitedCall = () => it.call('GET', `/v1/whoami/${limited.id}`, { apikey: limited.anon_key, headers })
  await limitedCall()
  const replies: [number, Reply][] = [
    [200, await whoami(headers)],
    [401, await it.call('GET', `/v1/whoami/${project.id}`, { headers })],
    [401, await it.call('GET', '/v1/nothing', { headers })],
    [404, await it.call('GET', `/v1/rest/${project.id}/x`, { apikey: project.anon_key, headers })],
    [403, await it.call('GET', `/v1/whoami/${suspended.id}`, { apikey: suspended.anon_key, headers })],
    [429, await limitedCall()],
  ]
  for (const [status, reply] of replies) {
    assert.equal(reply.status, status)
    assert.ok(['*', origin].includes(reply.headers.get('access-control-allow-origin') ?? ''), `${status}`)
    const exposed = listOf(reply, 'access-control-expose-headers')
    assertIncludes(exposed, exposedHeaders, `${status}: expose-headers`)
    // Credentials are headers, never cookies. Any origin may call, so requests with cookies must not be
    // allowed.
    assert.equal(reply.headers.get('access-control-allow-credentials'), null)
    assert.equal(reply.headers.get('set-cookie'), null)
  }
})

test('1 §7 every response of the data plane has a unique request id, and errors are JSON', async () => {
  const apikey = project.anon_key
  const replies = [
    await whoami(),
    await it.call('GET', `/v1/${project.id}/whoami/v1`, { apikey, token: userJwt(project) }),
    await it.call('GET', `/v1/whoami/${project.id}`),
    await it.call('GET', `/v1/rest/${project.id}/x`, { apikey }),
    await it.call('POST', `/v1/rest/${project.id}/x`, { apikey, body: '{' }),
    await it.call('GET', '/v1/nothing'),
    await it.call('GET', '/v1/%'),
    await it.call('GET', `/v1/whoami/%ff`, { apikey }),
  ]
  for (const reply of replies) {
    assertRequestId(reply)
    assert.match(reply.headers.get('content-type') ?? '', /^application\/json/)
    assert.ok(reply.status < 500)
  }
  assert.equal(new Set(replies.map(({ headers }) => headers.get('x-request-id'))).size, replies.length)
})

const request = (lines: string[], body = '') => {
  const start = `GET /v1/whoami/${project.id} HTTP/1.1`
  return `${[start, 'host: x', `apikey: ${project.anon_key}`, ...lines].join('\r\n')}\r\n\r\n${body}`
}
async function assert4xx(bytes: string): Promise<void> {
  const reply = await sendBytes(it.url, bytes)
  assert.ok(reply.status >= 400 && reply.status < 500, `${reply.status}`)
  assertRequestId(reply)
  assert.equal((await whoami()).status, 200, 'the server goes on')
}

test('1 §7, case 44: a header of 1 MB is 4xx', () => assert4xx(request([`x-big: ${'a'.repeat(1_000_000)}`])))

test('1 §7, case 44: 100,000 query parameters are 4xx', () =>
  assert4xx(request([]).replace(' HTTP/1.1', `?${'a=1&'.repeat(100_000)} HTTP/1.1`)))

test('1 §7, case 44: 100,000 headers are 4xx', () =>
  assert4xx(request(Array.from({ length: 100_000 }, (_, i) => `x-${i}: 1`))))

const post = (lines: string[], body: string) =>
  request(lines, body).replace('GET /v1/whoami/', 'POST /v1/rest/')
const smuggled = 'GET /v1/whoami/x HTTP/1.1\r\nhost: x\r\n\r\n'
const smuggling: Record<string, () => string> = {
  'length and chunks together': () =>
    post(['content-length: 6', 'transfer-encoding: chunked'], `0\r\n\r\n${smuggled}`),
  'two different lengths': () => post(['content-length: 3', 'content-length: 30'], 'abc'),
  'a length with a sign': () => post(['content-length: +3'], 'abc'),
  'a length list': () => post(['content-length: 3, 4'], 'abc'),
  'chunked spelled oddly': () => post(['transfer-encoding: xchunked'], 'abc'),
  'chunked not last': () => post(['transfer-encoding: chunked, identity'], '0\r\n\r\n'),
  'a space before the colon': () => post(['content-length : 3'], 'abc'),
  'a folded header': () => post(['x-a: b', ' content-length: 3'], 'abc'),
  'a bare line feed in a header': () => post(['x-a: b\ncontent-length: 3'], 'abc'),
  'a chunk size with a sign': () => post(['transfer-encoding: chunked'], '-1\r\n\r\n'),
  'a NUL in a header': () => request(['x-a: b\0c']),
  'a space in a header name': () => request(['x a: b']),
}
for (const [what, bytes] of Object.entries(smuggling))
  test(`1 §7, case 44: ${what} is 4xx`, () => assert4xx(bytes()))

test('1 §7, case 44: a request without Host is 4xx', () =>
  assert4xx(`GET /v1/whoami/${project.id} HTTP/1.1\r\napikey: ${project.anon_key}\r\n\r\n`))
