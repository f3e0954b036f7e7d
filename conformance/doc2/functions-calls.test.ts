// Document 2 §4.5 and the contract of edge functions: requests, answers, context and background work.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type FunctionsApi, functionsProject } from '../functions.ts'
import { userJwt } from '../people.ts'
import { type Target, target } from '../target.ts'

let it: Target
let own: FunctionsApi
before(async () => {
  it = await target()
  own = await functionsProject(it)
  const echo = `
      Deno.serve(async req => {
        const { pathname, search } = new URL(req.url)
        const headers = Object.fromEntries(req.headers)
        const body = await req.text()
        return Response.json({ method: req.method, pathname, search, headers, body, platform: req.platform })
      })`
  await own.deploy('echo', { verify_jwt: false, code: echo })
  await own.deploy('keyed', echo)
  await own.deploy('replies', {
    code: `
      Deno.serve(req => {
        const kind = new URL(req.url).pathname.split('/')[2]
        if (kind === 'json') return Response.json({ a: 1 })
        if (kind === 'empty') return new Response(null, { status: 204 })
        if (kind === 'cached') return new Response(null, { status: 304, headers: { etag: '"1"' } })
        if (kind === 'teapot') return new Response('short and stout', { status: 418 })
        if (kind === 'cookies') {
          const headers = new Headers([['set-cookie', 'a=1; Path=/'], ['set-cookie', 'b=2'], ['x-own', 'yes']])
          return new Response('cookies', { headers })
        }
        if (kind === 'bytes') return new Response(new Uint8Array([0, 255, 10, 13]), { headers: { 'content-type': 'application/octet-stream' } })
        if (kind === 'large') return new Response('y'.repeat(5_000_000))
        if (kind === 'platform') return new Response('x', { headers: { 'x-platform-outcome': 'none', 'x-platform-role': 'x' } })
        return new Response('unknown', { status: 404 })
      })`,
  })
})
after(() => it.stop())

const path = (rest: string) => `/v1/functions/${own.project.id}/${rest}`

test('2 §4.5 every method, sub-path, query and body reaches the function, in both shapes of the URL', async () => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
    const body = method === 'GET' || method === 'OPTIONS' ? undefined : `sent by ${method}`
    const options = body === undefined ? {} : { body, headers: { 'content-type': 'text/plain' } }
    for (const address of [
      path('keyed/a/b%20c/?x=1&y=%20'),
      `/v1/${own.project.id}/functions/v1/keyed/a/b%20c/?x=1&y=%20`,
    ]) {
      const reply = await it.call(method, address, { token: own.project.service_role_key, ...options })
      assert.equal(reply.status, 200, reply.text)
      assert.equal(reply.body.method, method)
      assert.equal(reply.body.pathname, '/keyed/a/b%20c/')
      assert.equal(reply.body.search, '?x=1&y=%20')
      assert.equal(reply.body.body, body ?? '')
      if (body !== undefined) assert.equal(reply.body.headers['content-length'], String(body.length))
    }
  }
  const head = await own.call('replies/json', { method: 'HEAD' })
  assert.equal(head.status, 200)
  assert.equal(head.text, '')
  assert.equal(head.headers.get('content-type'), 'application/json')
})

test('Contract: status, headers and body of the answer are passed through', async () => {
  const ask = (kind: string) => own.call(`replies/${kind}`, { method: 'GET' })
  assert.deepEqual((await ask('json')).body, { a: 1 })
  for (const [kind, status] of [
    ['empty', 204],
    ['cached', 304],
  ] as const) {
    const reply = await ask(kind)
    assert.equal(reply.status, status)
    assert.equal(reply.text, '')
  }
  assert.equal((await ask('cached')).headers.get('etag'), '"1"')
  const teapot = await ask('teapot')
  assert.deepEqual([teapot.status, teapot.text], [418, 'short and stout'])
  assert.equal(teapot.headers.get('x-relay-error'), null)
  const cookies = await ask('cookies')
  assert.deepEqual(cookies.headers.getSetCookie(), ['a=1; Path=/', 'b=2'])
  assert.equal(cookies.headers.get('x-own'), 'yes')
  assert.deepEqual([...(await ask('bytes')).bytes], [0, 255, 10, 13])
  assert.equal((await ask('large')).bytes.length, 5_000_000)
  const platform = await ask('platform')
  assert.equal(platform.headers.get('x-platform-role'), null)
})

test('2 §4.5 the context is injected as headers and as req.platform, and the headers of a client are not', async () => {
  await it.manage('POST', `/projects/${own.project.id}/secrets`, {
    name: 'API_TOKEN',
    value: 'a-secret-value',
  })
  const spoofed = {
    'x-platform-role': 'service_role',
    'X-Platform-User-Id': 'x',
    'x-platform-entry': 'file:///etc',
  }
  const anon = await own.callOpen('echo', { headers: spoofed })
  assert.equal(anon.status, 200, anon.text)
  const { headers, platform } = anon.body
  assert.equal(headers['x-platform-role'], 'anon')
  assert.equal(headers['x-platform-project-id'], own.project.id)
  assert.equal(headers['x-platform-function'], 'echo')
  assert.equal(headers['x-platform-request-id'], anon.headers.get('x-request-id'))
  assert.deepEqual(
    Object.keys(headers)
      .filter(name => name.startsWith('x-platform-'))
      .sort(),
    [
      'x-platform-function',
      'x-platform-function-version',
      'x-platform-project-id',
      'x-platform-request-id',
      'x-platform-role',
    ],
  )
  assert.deepEqual(platform, {
    projectId: own.project.id,
    function: 'echo',
    version: 1,
    role: 'anon',
    user: null,
    requestId: anon.headers.get('x-request-id'),
    secrets: { API_TOKEN: 'a-secret-value' },
  })
  const user = await own.callOpen('echo', {
    apikey: own.project.anon_key,
    token: userJwt(own.project, { sub: 'u1' }),
  })
  assert.equal(user.body.platform.role, 'authenticated')
  assert.equal(user.body.platform.user, 'u1')
  assert.equal(user.body.headers['x-platform-user-id'], 'u1')
  const own_ = await own.call('echo')
  assert.equal(own_.body.platform.role, 'service_role')
})

test('Issue: Deno.env shows the secrets and the names of Supabase, and a changed secret at the next call', async () => {
  await own.deploy(
    'environment',
    `
    const loaded = Deno.env.get('CHANGING')
    Deno.serve(() => Response.json({
      loaded, now: Deno.env.get('CHANGING'), node: process.env.CHANGING, has: Deno.env.has('CHANGING'),
      url: Deno.env.get('SUPABASE_URL'), anon: Deno.env.get('SUPABASE_ANON_KEY'),
      role: Deno.env.get('SUPABASE_SERVICE_ROLE_KEY'), all: Object.keys(Deno.env.toObject()).sort(),
    }))`,
  )
  const set = (value: string) =>
    it.manage('POST', `/projects/${own.project.id}/secrets`, { name: 'CHANGING', value })
  for (const value of ['one', 'two', 'three']) {
    await set(value)
    const { body } = await own.call('environment')
    assert.deepEqual([body.loaded, body.now, body.node, body.has], [value, value, value, true])
    assert.equal(body.url, `${it.url}/v1/${own.project.id}`)
    assert.equal(body.anon, own.project.anon_key)
    assert.equal(body.role, own.project.service_role_key)
    assert.ok(
      !body.all.some(
        (name: string) => /PATH|HOME|DATABASE|CONTROL|TOKEN$/.test(name) && name !== 'API_TOKEN',
      ),
      body.all.join(),
    )
  }
  await it.manage('DELETE', `/projects/${own.project.id}/secrets/CHANGING`)
  assert.equal((await own.call('environment')).body.has, false)
})

test('Contract: the other variables of Supabase: keys of tokens, and the ids of the call and of the deployment', async () => {
  await own.deploy(
    'identifiers',
    `Deno.serve(() => Response.json({ all: Deno.env.toObject(), execution: Deno.env.get('SB_EXECUTION_ID') }))`,
  )
  const replies = await Promise.all([own.call('identifiers'), own.call('identifiers')])
  for (const reply of replies) {
    const { all, execution } = reply.body
    assert.equal(execution, reply.headers.get('x-request-id'))
    assert.equal(all.SB_EXECUTION_ID, execution)
    assert.equal(all.DENO_DEPLOYMENT_ID, `${own.project.id}_identifiers_1`)
    assert.ok(Array.isArray(JSON.parse(all.SUPABASE_JWKS).keys))
  }
  assert.notEqual(replies[0]!.body.execution, replies[1]!.body.execution)
})

test('Contract: /tmp is writable, and belongs to the worker', async () => {
  await own.deploy(
    'files',
    `
    Deno.serve(async () => {
      await Deno.mkdir('/tmp/a/b', { recursive: true })
      await Deno.writeTextFile('/tmp/a/b/one.txt', 'one')
      Deno.writeTextFileSync(new URL('file:///tmp/a/b/two.txt'), 'two')
      await Deno.rename('/tmp/a/b/two.txt', '/tmp/a/b/three.txt')
      const made = await Deno.makeTempFile({ dir: '/tmp/a' })
      const names = []
      for await (const { name } of Deno.readDir('/tmp/a/b')) names.push(name)
      const outside = await Deno.readTextFile('/tmp/../etc/hostname').catch(error => error.name)
      const text = Deno.readTextFileSync('/tmp/a/b/one.txt')
      await Deno.writeTextFile(made, 'made')
      const again = await Deno.readTextFile(made)
      await Deno.remove('/tmp/a', { recursive: true })
      return Response.json({ text, names: names.sort(), again, outside })
    })`,
  )
  assert.deepEqual((await own.call('files')).body, {
    text: 'one',
    names: ['one.txt', 'three.txt'],
    again: 'made',
    outside: 'NotCapable',
  })
})

test('Issue: a function calls its own project through SUPABASE_URL, and no other and no management route', async () => {
  const other = await functionsProject(it)
  await own.deploy(
    'inside',
    `
    const ask = async (url, key) => {
      try {
        const reply = await fetch(url, { headers: { apikey: key, authorization: 'Bearer ' + key } })
        return reply.status
      } catch (error) { return error.name }
    }
    Deno.serve(async req => {
      const { paths, key } = await req.json()
      const base = Deno.env.get('SUPABASE_URL').replace(/\\/v1\\/.*/, '')
      const own = Deno.env.get('SUPABASE_SERVICE_ROLE_KEY')
      const result = {}
      for (const path of paths) result[path] = await ask(base + path, key ?? own)
      return Response.json(result)
    })`,
  )
  const { id } = own.project
  const paths = [`/v1/${id}/rest/v1/`, `/v1/rest/${id}/`, `/v1/whoami/${id}`]
  const allowed = await own.call('inside', { body: { paths } })
  for (const path of paths)
    assert.equal(allowed.body[path], path.includes('whoami') ? allowed.body[path] : 200, allowed.text)
  const foreign = [
    `/v1/rest/${other.project.id}/`,
    `/v1/${other.project.id}/rest/v1/`,
    '/api/v1/projects',
    '/health',
    `/v1/../api/v1/projects`,
  ]
  const refused = await own.call('inside', { body: { paths: foreign, key: other.project.service_role_key } })
  for (const path of foreign) assert.notEqual(refused.body[path], 200, `${path}: ${refused.text}`)
})

test('Issue: EdgeRuntime.waitUntil keeps work running after the answer', async () => {
  await own.deploy(
    'background',
    `
    Deno.serve(() => {
      EdgeRuntime.waitUntil((async () => {
        await new Promise(resolve => setTimeout(resolve, 300))
        console.log('background work is done')
      })())
      return new Response('answered')
    })`,
  )
  assert.equal((await own.call('background')).text, 'answered')
  await own.untilLogged('background', /background work is done/)
})

test('Issue: many calls at once each get their own answer', async () => {
  const replies = await Promise.all(
    Array.from({ length: 20 }, (_, number) => own.call(`keyed/${number}`, { body: `body ${number}` })),
  )
  for (const [number, reply] of replies.entries()) {
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.body.body, `body ${number}`)
    assert.equal(reply.body.pathname, `/keyed/${number}`)
  }
})
