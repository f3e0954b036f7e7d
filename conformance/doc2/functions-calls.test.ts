// Document 2 §4.5 and the contract of edge functions: requests, answers, context and background work.
import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { after, before, test } from 'node:test'
import { WebSocket } from 'ws'
import { type FunctionsApi, functionsProject } from '../functions.ts'
import { userJwt } from '../people.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

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
      const streams = {
        slow: new TextEncoder().encode('x'.repeat(100)),
      }
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
        if (kind === 'events') {
          let sent = 0
          return new Response(new ReadableStream({
            async pull(controller) {
              await new Promise(resolve => setTimeout(resolve, 20))
              controller.enqueue(new TextEncoder().encode(\`data: \${sent}\\n\\n\`))
              if (++sent === 5) controller.close()
            }
          }), { headers: { 'content-type': 'text/event-stream' } })
        }
        return new Response('unknown', { status: 404 })
      })`,
  })
})
after(() => it.stop())

/** Calls of functions that need no credential are counted with those of other files. */
const withKey = () => ({ apikey: own.project.service_role_key })
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

test('Contract: server-sent events arrive one by one, before the answer ends', async () => {
  const reply = await fetch(it.url + path('replies/events'), { headers: withKey() })
  assert.equal(reply.headers.get('content-type'), 'text/event-stream')
  const chunks: string[] = []
  for await (const chunk of reply.body!) chunks.push(Buffer.from(chunk).toString())
  assert.equal(chunks.join(''), [0, 1, 2, 3, 4].map(number => `data: ${number}\n\n`).join(''))
  assert.ok(chunks.length > 1, 'in more than one part')
})

test('Issue: a request body is streamed: the function reads the first part before the last is sent', async () => {
  await own.deploy('streaming', {
    code: `
      Deno.serve(async req => {
        const parts = []
        for await (const chunk of req.body) {
          const text = new TextDecoder().decode(chunk)
          console.log('read ' + text)
          parts.push(text)
        }
        return Response.json(parts)
      })`,
  })
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  const asked = own.call('streaming', { raw: readable })
  for (const part of ['first', 'second']) {
    await writer.write(Buffer.from(part))
    await own.untilLogged('streaming', new RegExp(`read ${part}`))
  }
  await writer.close()
  assert.deepEqual((await asked).body, ['first', 'second'])
})

test('Issue: bodies are streamed in both directions at the same time, and whatever their length', async () => {
  await own.deploy('pass', {
    code: `
      Deno.serve(req => new Response(req.body.pipeThrough(new TransformStream())))`,
  })
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  const init = { method: 'POST', headers: withKey(), body: readable, duplex: 'half' } as RequestInit
  void writer.write(Buffer.from('first'))
  const reply = await fetch(it.url + path('pass'), init)
  const reader = reply.body!.getReader()
  const read = async () => Buffer.from((await reader.read()).value ?? []).toString()
  assert.equal(await read(), 'first')
  await writer.write(Buffer.from('second'))
  assert.equal(await read(), 'second')
  await writer.close()
  assert.equal((await reader.read()).done, true)
  for (const length of [1, 65_536, 65_537, 262_144, 262_145, 3_000_000]) {
    const bytes = Buffer.alloc(length, 'abcdefg')
    const passed = await own.call('pass', { raw: bytes })
    assert.ok(Buffer.from(passed.bytes).equals(bytes), `${length} bytes`)
  }
})

test('Issue: a function may leave a body unread, or give it up, and the next calls are answered', async () => {
  await own.deploy('unread', {
    code: `
      Deno.serve(async req => {
        const { searchParams } = new URL(req.url)
        if (searchParams.has('cancel')) await req.body.cancel()
        if (searchParams.has('late')) setTimeout(() => req.text().catch(error => console.log('late: ' + error.message)), 50)
        return new Response('not read', { status: 413 })
      })`,
  })
  for (const query of ['', '?cancel', '', '?cancel']) {
    const { status, text } = await own.call(`unread${query}`, { raw: Buffer.alloc(2_000_000) })
    assert.deepEqual([status, text], [413, 'not read'])
  }
  await own.call('unread?late', { raw: Buffer.alloc(2_000_000) })
  await own.untilLogged('unread', /late: the answer has ended before the request/)
})

test('Issue: an answer that fails in its body or has too long headers is the failure of that call alone', async () => {
  await own.deploy('broken', {
    code: `
      Deno.serve(req => {
        const kind = new URL(req.url).searchParams.get('kind')
        if (kind === 'headers') return new Response('x', { headers: { 'x-long': 'y'.repeat(300_000) } })
        if (kind === 'ok') return new Response('ok')
        let sent = 0
        return new Response(new ReadableStream({
          pull(controller) {
            if (sent++ > 2) throw new Error('no more bytes')
            controller.enqueue(new TextEncoder().encode('part'))
          }
        }))
      })`,
  })
  const failing = (async () =>
    (await fetch(it.url + path('broken?kind=body'), { headers: withKey() })).text())()
  await assert.rejects(failing)
  await own.untilLogged('broken', /no more bytes/)
  const headers = await own.call('broken?kind=headers')
  assert.deepEqual([headers.status, headers.body.code], [500, 'WORKER_ERROR'])
  await own.untilLogged('broken', /headers of the answer are too long/)
  assert.equal((await own.call('broken?kind=ok')).text, 'ok')
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

test('Issue: a GET with a body is answered, and bytes that are none fail with a reason', async () => {
  const get = await new Promise<number>((resolve, reject) => {
    const sending = request(it.url + path('keyed'), {
      method: 'GET',
      headers: { ...withKey(), 'content-length': '3' },
    })
    sending.once('response', reply => resolve(reply.resume().statusCode!))
    sending.once('error', reject)
    sending.end('abc')
  })
  assert.equal(get, 200)
  await own.deploy('kinds', {
    code: `
      const chunks = { text: 'hello', buffer: new ArrayBuffer(3), number: 5 }
      Deno.serve(req => {
        const kind = new URL(req.url).searchParams.get('kind')
        if (kind === 'control') return new Response('x', { headers: { 'x-own': 'a\\x01b' } })
        if (kind === 'cookies') {
          const headers = new Headers()
          for (let n = 0; n < 16_000; n++) headers.append('set-cookie', '')
          return new Response('x', { headers })
        }
        return new Response(new ReadableStream({
          start(controller) {
            controller.enqueue(chunks[kind])
            controller.close()
          }
        }))
      })`,
  })
  for (const kind of ['text', 'buffer', 'number', 'control', 'cookies']) {
    const reply = await own.call(`kinds?kind=${kind}`)
    assert.deepEqual([reply.status, reply.body.code], [500, 'WORKER_ERROR'], kind)
  }
  await own.untilLogged('kinds', /must have chunks of the type Uint8Array/)
  await own.untilLogged('kinds', /x-own of the answer has a character that is not allowed/)
  await own.untilLogged('kinds', /more than 1000 headers/)
})

test('Issue: after an answer to half of a request, the connection takes the next one', async () => {
  await own.deploy('early', {
    code: `Deno.serve(() => new Response('early', { status: 413 }))`,
  })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const url = it.url + path('early')
  const first = await new Promise<number>((resolve, reject) => {
    const body = Buffer.alloc(3_000_000)
    const sending = request(url, {
      method: 'POST',
      agent,
      headers: { ...withKey(), 'content-length': String(body.length) },
    })
    sending.once('error', reject)
    sending.once('response', reply => {
      reply.resume()
      resolve(reply.statusCode!)
      // The rest follows after the answer.
      for (let at = 100_000; at < body.length; at += 100_000) sending.write(body.subarray(at, at + 100_000))
      sending.end()
    })
    sending.write(body.subarray(0, 100_000))
  })
  const second = await new Promise<number>((resolve, reject) => {
    const sending = request(url, { method: 'POST', agent, headers: withKey() })
    sending.once('error', reject)
    sending.once('response', reply => resolve(reply.resume().statusCode!))
    sending.end()
  })
  agent.destroy()
  assert.deepEqual([first, second], [413, 413])
})

test('Issue: a client that leaves ends its call: the signal, the stream, and the log', async () => {
  await own.deploy('leaving', {
    code: `
      Deno.serve(async req => {
        const kind = new URL(req.url).searchParams.get('kind')
        console.log(kind + ' begins')
        req.signal.addEventListener('abort', () => console.log(kind + ' is aborted'))
        const stream = new ReadableStream({ cancel() { console.log(kind + ' is cancelled') } })
        if (kind === 'late') await new Promise(resolve => req.signal.addEventListener('abort', resolve))
        return new Response(stream)
      })`,
  })
  for (const kind of ['open', 'late']) {
    const leave = new AbortController()
    const asked = fetch(it.url + path(`leaving?kind=${kind}`), {
      headers: withKey(),
      signal: leave.signal,
    }).catch(() => {})
    await own.untilLogged('leaving', new RegExp(`${kind} begins`))
    if (kind === 'open') await asked
    leave.abort()
    await own.untilLogged('leaving', new RegExp(`${kind} is aborted`))
    await own.untilLogged('leaving', new RegExp(`${kind} is cancelled`))
  }
  const late = await until('the call has ended', async () =>
    (await own.logs('leaving')).find(({ event, status }) => event === 'end' && status === 499),
  )
  assert.equal(late.level, 'info')
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

test('Contract: a WebSocket is upgraded, and messages pass in both directions', async () => {
  await own.deploy('socket', {
    verify_jwt: false,
    code: `
      Deno.serve(req => {
        if (req.headers.get('upgrade') !== 'websocket') return new Response('no socket', { status: 426 })
        const { socket, response } = Deno.upgradeWebSocket(req)
        socket.onmessage = event => socket.send('echo ' + event.data)
        return response
      })`,
  })
  const address = `${it.url.replace('http', 'ws')}${path('socket/sub?x=1')}`
  const socket = new WebSocket(address)
  const received: string[] = []
  socket.on('message', data => received.push(String(data)))
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  for (const text of ['one', 'x'.repeat(100_000), 'three']) socket.send(text)
  await until('three messages', async () => received.length === 3)
  assert.deepEqual(
    received,
    ['one', 'x'.repeat(100_000), 'three'].map(text => `echo ${text}`),
  )
  const closed = new Promise(resolve => socket.once('close', resolve))
  socket.close()
  await closed
  assert.equal((await it.call('GET', path('socket'))).status, 426)
})

test('Issue: a WebSocket whose client leaves during the handshake leaves nothing', async () => {
  const alone = await functionsProject(it, { quotas: { function_concurrency: 1 } })
  await alone.deploy('slow', {
    code: `
      Deno.serve(async req => {
        if (req.headers.get('upgrade') !== 'websocket') return new Response('plain')
        console.log('asked')
        await new Promise(resolve => setTimeout(resolve, 300))
        return Deno.upgradeWebSocket(req, { idleTimeout: 0 }).response
      })`,
  })
  const { id, service_role_key } = alone.project
  const address = `${it.url.replace('http', 'ws')}/v1/functions/${id}/slow?apikey=${service_role_key}`
  const socket = new WebSocket(address)
  socket.on('error', () => {})
  await alone.untilLogged('slow', /asked/)
  socket.terminate()
  await until('the next call is answered', async () => (await alone.call('slow')).status === 200)
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
