// Functions with the unmodified client: every kind of request body, every kind of reply, and its three kinds of error.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'
import {
  createClient,
  FunctionRegion,
  FunctionsFetchError,
  FunctionsHttpError,
  FunctionsRelayError,
  type SupabaseClient,
} from '@supabase/supabase-js'
import type { FunctionsApi } from '../../../conformance/functions.ts'
import { eventually } from './eventually.ts'
import { type FunctionsPlatform, startFunctionsPlatform } from './functions-platform.ts'

let it: FunctionsPlatform
let own: FunctionsApi
let anon: SupabaseClient
before(async () => {
  it = await startFunctionsPlatform()
  own = await it.createProject()
  anon = clientOf(own)
  await own.deploy('echo', { verify_jwt: false, code: echo })
  await own.deploy('replies', { verify_jwt: false, code: replies })
  await own.deploy('private', `Deno.serve(req => Response.json(req.platform))`)
})
after(() => it?.stop())

const clientOf = ({ project }: FunctionsApi, key = project.anon_key, from = it): SupabaseClient =>
  createClient(`${from.url}/v1/${project.id}`, key, {
    auth: { persistSession: false, autoRefreshToken: false },
  })

/** Answers with what it has received. */
const echo = `
  Deno.serve(async req => {
    const { pathname, searchParams } = new URL(req.url)
    const type = req.headers.get('content-type')
    const form = type?.startsWith('multipart/') ? await req.clone().formData() : undefined
    const file = form?.get('file')
    return Response.json({
      method: req.method,
      pathname,
      query: Object.fromEntries(searchParams),
      type,
      own: req.headers.get('x-own'),
      client: req.headers.get('x-client-info'),
      role: req.platform.role,
      bytes: [...new Uint8Array(await req.arrayBuffer())],
      ...(form && { name: form.get('name'), file: { name: file.name, type: file.type, text: await file.text() } }),
    })
  })`

const replies = `
  let goOn = () => {}
  const bytes = new Uint8Array(300_000).map((_, index) => index % 251)
  const encode = text => new TextEncoder().encode(text)
  const kinds = {
    json: () => Response.json({ a: [1, null, 'ä'] }),
    'json-charset': () => new Response('{"a":1}', { headers: { 'content-type': 'application/json; charset=utf-8' } }),
    bytes: () => new Response(bytes, { headers: { 'content-type': 'application/octet-stream' } }),
    pdf: () => new Response(encode('%PDF-1.7'), { headers: { 'content-type': 'application/pdf' } }),
    form: () => {
      const form = new FormData()
      form.append('name', 'ä value')
      form.append('file', new Blob(['the content'], { type: 'text/csv' }), 'a.csv')
      return new Response(form)
    },
    text: () => new Response('plain ä'),
    html: () => new Response('<p>hi</p>', { headers: { 'content-type': 'text/html' } }),
    untyped: () => new Response(encode('without a type')),
    empty: () => new Response(null, { status: 204 }),
    events: () => {
      const { promise: released, resolve } = Promise.withResolvers()
      goOn = resolve
      return new Response(new ReadableStream({
        async start(controller) {
          controller.enqueue(encode('data: first\\n\\n'))
          await released
          controller.enqueue(encode('data: second\\n\\n'))
          controller.close()
        },
      }), { headers: { 'content-type': 'text/event-stream' } })
    },
    release: () => { goOn(); return new Response('released') },
    teapot: () => Response.json({ reason: 'short and stout' }, { status: 418, headers: { 'x-own': 'yes' } }),
    broken: () => new Response('the function says so', { status: 500 }),
    moved: () => new Response('nowhere', { status: 300 }),
  }
  Deno.serve(req => kinds[new URL(req.url).pathname.split('/')[2]]())`

async function invoke<T = any>(
  name: string,
  options?: Parameters<SupabaseClient['functions']['invoke']>[1],
): Promise<T> {
  const { data, error } = await anon.functions.invoke(name, options)
  assert.equal(error, null, String(error))
  return data
}

const textOf = (bytes: number[]) => Buffer.from(bytes).toString('utf8')

test('functions, supabase-js: a JSON answer is parsed', async () => {
  assert.deepEqual(await invoke('replies/json'), { a: [1, null, 'ä'] })
  assert.deepEqual(await invoke('replies/json-charset'), { a: 1 })
})

test('functions, supabase-js: octet-stream and PDF answers are blobs with the bytes of the function', async () => {
  const blob = await invoke<Blob>('replies/bytes')
  assert.ok(blob instanceof Blob)
  const expected = new Uint8Array(300_000).map((_, index) => index % 251)
  assert.ok(Buffer.from(await blob.arrayBuffer()).equals(expected))
  const pdf = await invoke<Blob>('replies/pdf')
  assert.deepEqual([pdf instanceof Blob, pdf.type, await pdf.text()], [true, 'application/pdf', '%PDF-1.7'])
})

test('functions, supabase-js: server-sent events are readable while the function still runs', async () => {
  const stream = await invoke<Response>('replies/events')
  assert.ok(stream instanceof Response)
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader()
  assert.equal((await reader.read()).value, 'data: first\n\n')
  // The function sends the second event only now.
  assert.equal(await invoke('replies/release'), 'released')
  let rest = ''
  for (let read = await reader.read(); !read.done; read = await reader.read()) rest += read.value
  assert.equal(rest, 'data: second\n\n')
})

test('functions, supabase-js: a multipart answer is a form', async () => {
  const form = await invoke<FormData>('replies/form')
  assert.ok(form instanceof FormData)
  const file = form.get('file') as File
  assert.deepEqual(
    [form.get('name'), file.name, file.type, await file.text()],
    ['ä value', 'a.csv', 'text/csv', 'the content'],
  )
})

test('functions, supabase-js: other answers are text, also those without a type or a body', async () => {
  assert.equal(await invoke('replies/text'), 'plain ä')
  assert.equal(await invoke('replies/html'), '<p>hi</p>')
  const untyped = await anon.functions.invoke('replies/untyped')
  assert.deepEqual([untyped.data, untyped.error], ['without a type', null])
  assert.equal(untyped.response!.headers.get('content-type'), null)
  const empty = await anon.functions.invoke('replies/empty')
  assert.deepEqual([empty.data, empty.error, empty.response!.status], ['', null, 204])
})

test('functions, supabase-js: the function receives each kind of body with its type', async () => {
  const bytes = Uint8Array.from([0, 255, 10, 13, 128])
  for (const [body, type] of [
    [new Blob([bytes]), 'application/octet-stream'],
    [bytes.buffer, 'application/octet-stream'],
    [new Blob([bytes], { type: 'image/png' }), 'image/png'],
  ] as const) {
    const received = await invoke('echo', { body })
    assert.deepEqual([received.type, received.bytes], [type, [...bytes]])
  }
  const text = await invoke('echo', { body: 'a text with ä' })
  assert.deepEqual([text.type, textOf(text.bytes)], ['text/plain', 'a text with ä'])
  const json = await invoke('echo', { body: { a: [1, 'ä'] } })
  assert.deepEqual([json.type, textOf(json.bytes)], ['application/json', '{"a":[1,"ä"]}'])
  const none = await invoke('echo')
  assert.deepEqual([none.method, none.type, none.bytes], ['POST', null, []])
  const form = new FormData()
  form.append('name', 'ä value')
  form.append('file', new File(['the content'], 'a.csv', { type: 'text/csv' }))
  const multipart = await invoke('echo', { body: form })
  assert.match(multipart.type, /^multipart\/form-data; boundary=/)
  assert.equal(multipart.name, 'ä value')
  assert.deepEqual(multipart.file, { name: 'a.csv', type: 'text/csv', text: 'the content' })
})

test('functions, supabase-js: a large body arrives whole', async () => {
  const body = new Blob([randomBytes(700_000)])
  const received = await invoke('echo', { body })
  assert.ok(Buffer.from(received.bytes).equals(Buffer.from(await body.arrayBuffer())))
})

test('functions, supabase-js: a content type and other headers of the application reach the function', async () => {
  const xml = await invoke('echo', {
    body: '<a/>',
    headers: { 'content-type': 'application/xml', 'x-own': 'v' },
  })
  assert.deepEqual([xml.type, textOf(xml.bytes), xml.own], ['application/xml', '<a/>', 'v'])
  const object = await invoke('echo', {
    body: { a: 1 } as object as Record<string, any>,
    headers: { 'Content-Type': 'application/vnd.api+json' },
  })
  assert.deepEqual([object.type, textOf(object.bytes)], ['application/vnd.api+json', '{"a":1}'])
  assert.match(object.client, /^supabase-js/)
})

test('functions, supabase-js: every method of the client reaches the function', async () => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const) {
    const body = method === 'GET' ? {} : { body: `sent by ${method}` }
    const received = await invoke('echo', { method, ...body })
    assert.deepEqual([received.method, textOf(received.bytes)], [method, body.body ?? ''])
  }
})

test('functions, supabase-js: the name may have a sub-path and a query, and a region changes nothing', async () => {
  const plain = await invoke('echo/sub/path?x=1&y=a%20b')
  assert.deepEqual([plain.pathname, plain.query], ['/echo/sub/path', { x: '1', y: 'a b' }])
  const there = await invoke('echo/sub?x=1', { region: FunctionRegion.UsEast1, body: 'b' })
  assert.deepEqual([there.pathname, there.query.x, textOf(there.bytes)], ['/echo/sub', '1', 'b'])
})

test('functions, supabase-js: an answer of the function that is not 2xx is a FunctionsHttpError with the answer', async () => {
  const teapot = await anon.functions.invoke('replies/teapot')
  assert.ok(teapot.error instanceof FunctionsHttpError, String(teapot.error))
  const { context } = teapot.error
  assert.deepEqual([context.status, context.headers.get('x-own')], [418, 'yes'])
  assert.deepEqual(await context.json(), { reason: 'short and stout' })
  assert.equal(teapot.data, null)
  for (const [kind, status, text] of [
    ['broken', 500, 'the function says so'],
    ['moved', 300, 'nowhere'],
  ] as const) {
    const { error } = await anon.functions.invoke(`replies/${kind}`)
    assert.ok(error instanceof FunctionsHttpError, String(error))
    assert.deepEqual([error.context.status, await error.context.text()], [status, text])
  }
})

async function assertRelayError(asked: Promise<{ error: any }>, status: number, code: string): Promise<void> {
  const { error } = await asked
  assert.ok(error instanceof FunctionsRelayError, String(error))
  assert.equal(error.context.status, status)
  const body = await error.context.json()
  assert.deepEqual([body.code, body.statusCode, typeof body.message], [code, status, 'string'])
}

test('functions, supabase-js: a function that does not exist, or cannot be loaded, is a FunctionsRelayError', async () => {
  await assertRelayError(anon.functions.invoke('nowhere'), 404, 'NOT_FOUND')
  await own.deploy('unloadable', { verify_jwt: false, code: `throw new Error('not today')` })
  await assertRelayError(anon.functions.invoke('unloadable'), 503, 'BOOT_ERROR')
})

test('functions, supabase-js: a function that does not answer in time is a FunctionsRelayError', async () => {
  const quick = await startFunctionsPlatform({ RUNTIME_REQUEST_TIMEOUT_MS: '300' })
  try {
    const project = await quick.createProject()
    await project.deploy('hanging', 'Deno.serve(() => new Promise(() => {}))')
    const client = clientOf(project, project.project.service_role_key, quick)
    await assertRelayError(client.functions.invoke('hanging'), 504, 'IDLE_TIMEOUT')
  } finally {
    await quick.stop()
  }
})

test('functions, supabase-js: a call that the application aborts, or that reaches nobody, is a FunctionsFetchError', async () => {
  await own.deploy('aborted', {
    verify_jwt: false,
    code: `Deno.serve(req => new Promise(() => {
      console.log('called')
      req.signal.addEventListener('abort', () => console.log('the caller has left'))
    }))`,
  })
  const stopping = new AbortController()
  const asked = anon.functions.invoke('aborted', { signal: stopping.signal })
  await own.untilLogged('aborted', /called/)
  stopping.abort()
  assert.ok((await asked).error instanceof FunctionsFetchError)
  await own.untilLogged('aborted', /the caller has left/)
  const nobody = createClient('http://127.0.0.1:9', own.project.anon_key)
  assert.ok((await nobody.functions.invoke('echo')).error instanceof FunctionsFetchError)
})

test('functions, supabase-js: a signed-in user may call a function that verifies tokens, until the user signs out', async () => {
  const client = clientOf(own)
  const { data: signedUp, error } = await client.auth.signUp({
    email: `${randomBytes(6).toString('hex')}@example.test`,
    password: 'correct horse',
  })
  assert.equal(error, null, String(error))
  const { data } = await client.functions.invoke('private')
  assert.deepEqual([data.role, data.user, data.function], ['authenticated', signedUp.user!.id, 'private'])
  // A function that needs no user knows the user as well.
  assert.equal((await client.functions.invoke('echo')).data.role, 'authenticated')
  const token = signedUp.session!.access_token
  await client.auth.signOut()
  for (const headers of [{}, { Authorization: `Bearer ${token}` }])
    await eventually(async () => {
      const { error: refused } = await client.functions.invoke('private', { headers })
      return refused instanceof FunctionsHttpError && refused.context.status === 401
    }, 'the user is signed out')
})

test('functions, supabase-js: without a user, a function that verifies tokens is 401, except for the service_role key', async () => {
  const { data, error } = await anon.functions.invoke('private')
  assert.equal(data, null)
  assert.ok(error instanceof FunctionsHttpError, String(error))
  assert.equal(error.context.status, 401)
  const body = await error.context.json()
  assert.deepEqual([body.code, body.statusCode], ['unauthorized', 401])
  assert.match(body.hint, /verify_jwt/)
  const service = clientOf(own, own.project.service_role_key)
  assert.equal((await service.functions.invoke('private')).data.role, 'service_role')
  assert.equal((await anon.functions.invoke('echo')).data.role, 'anon')
})
