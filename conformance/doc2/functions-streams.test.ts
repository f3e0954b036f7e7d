// Document 2 §4.5 and the contract of edge functions: streams, bodies that are not read, clients that leave, WebSockets.
import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { after, before, test } from 'node:test'
import { WebSocket } from 'ws'
import { type FunctionsApi, functionsProject } from '../functions.ts'
import { type Target, target } from '../target.ts'
import { until } from '../until.ts'

let it: Target
let own: FunctionsApi
before(async () => {
  it = await target()
  own = await functionsProject(it)
})
after(() => it.stop())

const withKey = () => ({ apikey: own.project.service_role_key })
const path = (rest: string) => `/v1/functions/${own.project.id}/${rest}`

test('Contract: server-sent events arrive one by one, before the answer ends', async () => {
  await own.deploy(
    'events',
    `
      Deno.serve(() => {
          let sent = 0
          return new Response(new ReadableStream({
            async pull(controller) {
              await new Promise(resolve => setTimeout(resolve, 20))
              controller.enqueue(new TextEncoder().encode(\`data: \${sent}\\n\\n\`))
              if (++sent === 5) controller.close()
            }
          }), { headers: { 'content-type': 'text/event-stream' } })
      })`,
  )
  const reply = await fetch(it.url + path('events'), { headers: withKey() })
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

test('Issue: a GET with a body is answered, and bytes that are none fail with a reason', async () => {
  await own.deploy('echo', `Deno.serve(req => new Response(req.method))`)
  const get = await new Promise<number>((resolve, reject) => {
    const sending = request(it.url + path('echo'), {
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
