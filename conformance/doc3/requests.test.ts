// 3 §7 and §8: valid and invalid management requests.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type CreatedProject, createProject, mintToken, unique } from '../people.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'
import { assertManagementError, assertRequestId, sendBytes } from '../wire.ts'

let it: Target
let project: CreatedProject
before(async () => {
  it = await target()
  project = await createProject(it)
})
after(() => it.stop())

const create = (body: unknown, headers: Record<string, string> = {}) =>
  it.call('POST', '/api/v1/projects', { token: it.adminToken, body, headers })
const change = (body: unknown) =>
  it.call('PATCH', `/api/v1/projects/${project.id}`, { token: it.adminToken, body })
const lists = ['/projects', '/platform/tokens', '/admin/audit', '/admin/users']

test('3 §7 a body that is not JSON is 400 invalid_json', async () => {
  for (const body of [
    '{"name":',
    '{name:"x"}',
    "{'name':'x'}",
    '{"name":"x",}',
    '{"name":"x"} x',
    'name=x',
    '\u0000',
  ])
    assertManagementError(await create(body), 'invalid_json')
})

test('3 §7 JSON that is not an object is 400', async () => {
  for (const body of ['null', '[]', '"x"', '5', 'true', '[{"name":"x"}]'])
    assertManagementError(await create(body), 'invalid_request')
})

test('3 §7 a missing body is 400', async () => {
  assert.equal((await create(undefined)).status, 400)
  assert.equal((await create('')).status, 400)
})

test('3 §7 another content type is 415', async () => {
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/xml',
    'multipart/form-data',
  ])
    assertManagementError(await create('{"name":"x"}', { 'content-type': type }), 'unsupported_media_type')
  const charset = { 'content-type': 'application/json; charset=utf-8' }
  assert.equal((await create({ name: unique('charset') }, charset)).status, 201)
})

test('3 §7 a body that is too large is 413, with Content-Length and chunked', async () => {
  const head =
    'POST /api/v1/projects HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n' +
    `authorization: Bearer ${it.adminToken}\r\n`
  const announced = await sendBytes(it.url, `${head}content-length: 100000000\r\n\r\n{`)
  assertManagementError(announced, 'body_too_large')
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`
  const chunked = await sendBytes(it.url, `${head}transfer-encoding: chunked\r\n\r\n${chunk.repeat(48)}`)
  assertManagementError(chunked, 'body_too_large')
})

test('3 §7 the message of a 400 names the field', async () => {
  assertManagementError(await create({ name: 5 }), 'invalid_request', /name/)
  assertManagementError(await create({ name: 'x', colour: 'red' }), 'invalid_request', /colour/)
  assertManagementError(await create({ description: 'x' }), 'invalid_request', /name/)
  const nested = { name: 'x', quotas: { rate_limit_anon: -1 } }
  assertManagementError(await create(nested), 'invalid_request', /rate_limit_anon/)
  assertManagementError(await it.manage('GET', '/projects?limit=-1'), 'invalid_request', /limit/)
})

test('3 §7 types are not coerced: a number is not a string, "true" is not a boolean', async () => {
  assertManagementError(await create({ name: 'x', description: 5 }), 'invalid_request')
  assertManagementError(await create({ name: 'x', quotas: { max_storage_size_mb: '5' } }), 'invalid_request')
  assertManagementError(await create({ name: 'x', quotas: { max_storage_size_mb: true } }), 'invalid_request')
  assertManagementError(await create({ name: ['x'] }), 'invalid_request')
})

test('3 §7, case 44: __proto__ and constructor keys are 4xx and pollute nothing', async () => {
  for (const body of [
    '{"name":"x","__proto__":{"polluted":true}}',
    '{"__proto__":{"name":"x"}}',
    '{"name":"x","constructor":{"prototype":{"polluted":true}}}',
    '{"name":"x","settings":{"__proto__":{"polluted":true}}}',
    '{"name":"x","settings":{"a":{"__proto__":{"polluted":true}}}}',
    '{"name":"x","settings":{"constructor":{"prototype":{"polluted":true}}}}',
    '{"name":"x","settings":{"\\u005f_proto__":{"polluted":true}}}',
    '{"name":"x","quotas":{"__proto__":{"rate_limit_anon":1}}}',
  ]) {
    const reply = await create(body)
    assert.equal(reply.status, 400, body)
    assert.ok(reply.body.error.code)
  }
  assert.equal((await change('{"settings":{"__proto__":{"polluted":true}}}')).status, 400)
  const fresh = await createProject(it)
  assert.deepEqual(fresh['settings'], {})
  assert.deepEqual(fresh['quotas'], {})
  assert.ok(!('polluted' in fresh))
})

// Each in its own field, because the database treats text and JSON differently.
const unstorable = {
  'NUL in text': '\\u0000',
  'a lone surrogate': '\\ud800',
  'a lone low surrogate': '\\udc00',
}
for (const [what, escaped] of Object.entries(unstorable)) {
  test(`3 §7, case 44: ${what} is 4xx in a name`, async () => {
    const reply = await create(`{"name":"a${escaped}b"}`)
    assertManagementError(reply, 'invalid_request')
  })
  test(`3 §7, case 44: ${what} is 4xx in a value of settings`, async () => {
    assertManagementError(await change(`{"settings":{"a":"x${escaped}y"}}`), 'invalid_request')
  })
  test(`3 §7, case 44: ${what} is 4xx in a key of settings`, async () => {
    assertManagementError(await change(`{"settings":{"a${escaped}b":1}}`), 'invalid_request')
  })
  test(`3 §7, case 44: ${what} is 4xx in the name of a token`, async () => {
    const body = `{"name":"a${escaped}b","scope":"read"}`
    const reply = await it.call('POST', '/api/v1/platform/tokens', { token: it.adminToken, body })
    assertManagementError(reply, 'invalid_request')
  })
  test(`3 §7, case 44: ${what} is 4xx in a login`, async () => {
    for (const body of [
      `{"email":"a${escaped}b@example.test","password":"x"}`,
      `{"email":"a@example.test","password":"x${escaped}y"}`,
    ]) {
      const { status } = await it.call('POST', '/api/v1/platform/login', { body })
      assert.ok(status >= 400 && status < 500, `${status}`)
    }
  })
}

test('3 §7, case 44: bytes that are not UTF-8 are 4xx', async () => {
  const body = Buffer.concat([Buffer.from('{"name":"a'), Buffer.from([0xff, 0xc0]), Buffer.from('b"}')])
  const { status, text } = await create(body)
  assert.equal(status, 400, text)
})

test('3 §7, case 44: NUL in a query or path is 4xx', async () => {
  for (const path of [
    '/projects/%00',
    '/admin/audit?action=%00',
    '/projects?status=%00',
    '/projects?limit=%00',
  ]) {
    const { status } = await it.manage('GET', path)
    assert.ok(status >= 400 && status < 500, `${path}: ${status}`)
  }
})

test('3 §7, case 44: a path that does not decode is 4xx', async () => {
  for (const path of ['/projects/%', '/projects/%ff', '/projects/%c0%ae', '/%zz']) {
    const reply = await it.manage('GET', path)
    assert.ok(reply.status >= 400 && reply.status < 500, `${path}: ${reply.status}`)
    assert.deepEqual(Object.keys(reply.body), ['error'], path)
    assertRequestId(reply)
  }
})

test('3 §7, case 44: deeply nested JSON does not break the server', async () => {
  const depth = 50_000
  const nested = `{"name":"x","settings":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`
  const { status } = await create(nested)
  assert.ok(status < 500, `${status}`)
  assert.equal((await it.call('GET', '/health')).status, 200)
})

for (const path of lists) {
  test(`3 §8 ${path} caps limit at 100 and rejects a limit that is not a number`, async () => {
    const page = await it.manage('GET', `${path}?limit=1000000`)
    assert.equal(page.status, 200)
    assert.equal(page.body.limit, 100)
    assert.equal((await it.manage('GET', `${path}?limit=99999999999999999999`)).body.limit, 100)
    const standard = await it.manage('GET', path)
    assert.ok(standard.body.limit >= 1 && standard.body.limit <= 100)
    assert.equal(standard.body.offset, 0)
    for (const query of [
      'limit=-1',
      'offset=-1',
      'limit=x',
      'offset=x',
      'limit=1.5',
      'limit=NaN',
      'offset=1;select',
    ])
      assertManagementError(await it.manage('GET', `${path}?${query}`), 'invalid_request')
  })

  test(`3 §8 ${path} past its end is an empty page`, async () => {
    const pastEnd = () => it.manage('GET', `${path}?offset=1000000`)
    const { status, body } = await pastEnd()
    assert.equal(status, 200)
    assert.equal(body.offset, 1_000_000)
    const [rows] = Object.values(body).filter(Array.isArray)
    assert.deepEqual(rows, [])
    // Other files add to the list meanwhile.
    await until('both pages have the same total', async () => {
      const first = (await it.manage('GET', path)).body.total
      return (await pastEnd()).body.total === first
    })
  })

  test(`3 §8 ${path} with a huge offset is not a 5xx`, async () => {
    for (const offset of ['9007199254740993', '9223372036854775808', '99999999999999999999', '1e300']) {
      const { status } = await it.manage('GET', `${path}?offset=${offset}`)
      assert.ok(status === 200 || status === 400, `${offset}: ${status}`)
    }
  })
}

test('3 §7 every answer has a unique request id', async () => {
  const { token } = await mintToken(it, 'read')
  const replies = [
    await it.call('GET', '/health'),
    await it.call('GET', '/api/v1/health/services'),
    await it.call('GET', '/api/v1/openapi.json'),
    await it.call('GET', '/api/v1/projects'),
    await it.call('GET', '/api/v1/projects', { token }),
    await it.call('POST', '/api/v1/projects', { token }),
    await it.call('GET', '/api/v1/nothing'),
    await it.manage('GET', '/nothing'),
    await it.call('GET', '/'),
    await it.call('GET', '/nothing'),
    await it.call('GET', '/api/v2/projects'),
    await create('{'),
    await create({}),
    await create('x', { 'content-type': 'text/plain' }),
    await it.call('OPTIONS', '/api/v1/projects'),
    await it.call('HEAD', '/api/v1/projects', { token }),
    await it.manage('DELETE', `/platform/tokens/${(await mintToken(it, 'read')).id}`),
    await it.call('POST', '/api/v1/platform/login', { body: { email: 'x@example.test', password: 'x' } }),
  ]
  for (const reply of replies) assertRequestId(reply)
  assert.equal(new Set(replies.map(({ headers }) => headers.get('x-request-id'))).size, replies.length)
})

test('3 §7 a request id from the caller that is too long is not copied into a header', async () => {
  const reply = await it.call('GET', '/health', { headers: { 'x-request-id': `x${'y'.repeat(3000)}` } })
  assert.ok((reply.headers.get('x-request-id') ?? '').length < 200)
})

test('3 §7 invalid HTTP requests get an answer with a request id, too', async () => {
  const huge = `GET /api/v1/projects HTTP/1.1\r\nhost: x\r\nx-a: ${'a'.repeat(100_000)}\r\n\r\n`
  const tooLarge = await sendBytes(it.url, huge)
  assert.equal(tooLarge.status, 431)
  assertRequestId(tooLarge)
  const nonsense = await sendBytes(it.url, 'NONSENSE\r\n\r\n')
  assert.equal(nonsense.status, 400)
  assertRequestId(nonsense)
})

test('3 §7 a path outside both planes is 404 and reveals nothing', async () => {
  for (const path of ['/', '/nothing', '/.env', '/package.json', '/api', '/api/v2/projects', '/favicon.ico'])
    assertManagementError(await it.call('GET', path), 'route_not_found')
})
