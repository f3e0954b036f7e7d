// Functions that run on this machine, with and without a real platform.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { eventually } from '../../server/test/eventually.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { begin, plinth as run, temporaryDirectory, writeIn } from './plinth.ts'
import { codes } from './storage-project.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
})
after(() => platform.stop())

/** Its own, so that tests depend on no cache of the user. */
const cache = temporaryDirectory()
const linked = () => ({
  PLATFORM_URL: platform.url,
  PLATFORM_TOKEN: platform.adminToken,
  PLATFORM_PROJECT: project.id,
})

/** The test run may have its files in /dev/shm, where Deno opens none for functions. */
function outsideOfMemory(files: Record<string, string>): string {
  const directory = mkdtempSync('/tmp/plinth-serve-')
  after(() => rmSync(directory, { recursive: true, force: true }))
  for (const [path, content] of Object.entries(files)) writeIn(directory, path, content)
  return directory
}

/** Serves on a free port, in a directory with these files. */
async function serve(files: Record<string, string>, args: string[] = [], env: Record<string, string> = {}) {
  const cwd = outsideOfMemory(files)
  const running = begin(['functions', 'serve', '--port', '0', ...args], {
    cwd,
    env: { DENO_DIR: cache, ...env },
  })
  const end = () => {
    running.interrupt()
    return running.ended
  }
  after(end)
  const [, origin] = await eventually(
    () =>
      running.hasEnded() ? assert.fail(running.stdout()) : /at (http:\S+?)\/functions/.exec(running.stderr()),
    'it listens',
  )
  const lines = () =>
    running
      .stdout()
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
  return {
    cwd,
    origin: origin!,
    end,
    ...running,
    lines,
    logged: () => lines().filter(each => each.kind === 'log'),
    write: (path: string, content: string) => writeIn(cwd, path, content),
    call: async (path: string, init: RequestInit = {}) => {
      const reply = await fetch(`${origin}/functions/v1/${path}`, init)
      return { status: reply.status, headers: reply.headers, text: await reply.text() }
    },
  }
}

const answering = (text: string) => `Deno.serve(() => new Response(${JSON.stringify(text)}))\n`
const showing = (expression: string) => `Deno.serve(request => Response.json(${expression}))\n`

test('functions serve: serves every function under both addresses, and prints its output and its calls', async () => {
  const served = await serve({
    'functions/one/index.ts': `Deno.serve(request => { console.log('hi', { a: 1 }); return new Response(request.url) })`,
    'functions/two/index.js': answering('two'),
    'functions/_shared/text.ts': '',
  })
  assert.match(served.stderr(), /Serving one, two at http:/)
  assert.equal((await served.call('one/a?b=c')).text, `${served.origin}/one/a?b=c`)
  assert.equal(await (await fetch(`${served.origin}/two`)).text(), 'two')
  const unknown = await served.call('three')
  assert.deepEqual([unknown.status, JSON.parse(unknown.text).code], [404, 'NOT_FOUND'])
  assert.match(unknown.text, /there are: one, two/)

  await eventually(() => served.lines().length >= 4, 'the calls are printed')
  const [log] = served.logged()
  assert.deepEqual([log.function, log.level, log.message], ['one', 'log', 'hi { a: 1 }'])
  const calls = served.lines().filter(each => each.kind === 'request')
  assert.deepEqual(
    calls.map(each => [each.function, each.method, each.path, each.status]),
    [
      ['one', 'GET', '/functions/v1/one/a', 200],
      ['two', 'GET', '/two', 200],
      ['three', 'GET', '/functions/v1/three', 404],
    ],
  )
  assert.equal(log.request_id, calls[0].request_id)
  assert.ok(calls.every(each => typeof each.duration_ms === 'number'))
})

test('functions serve: Ctrl-C stops the workers and the server, and ends with 0', async () => {
  const served = await serve({
    'functions/one/index.ts': `
      Deno.serve(request => {
        const { socket, response } = Deno.upgradeWebSocket(request)
        socket.onmessage = ({ data }) => socket.send(\`echo \${data}\`)
        return response
      })`,
    'functions/pid/index.ts': showing('Deno.pid'),
  })
  const pid = Number((await served.call('pid')).text)
  const socket = new WebSocket(`${served.origin.replace('http', 'ws')}/functions/v1/one`)
  const message = once(socket, 'message')
  const closed = once(socket, 'close')
  await new Promise((resolve, reject) => {
    socket.onopen = resolve
    socket.onerror = reject
  })
  socket.send('x')
  assert.equal((await message)[0].data, 'echo x')
  process.kill(pid, 0)
  assert.equal(await served.end(), 0)
  await closed
  assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
  await assert.rejects(served.call('pid'))
})

test('functions serve: a changed file, a new function and a changed .env are used by the next call', async () => {
  const served = await serve({
    'functions/one/index.ts': `import { text } from './text.ts'\n${showing(`[text, Deno.env.get('GREETING')]`)}`,
    'functions/one/text.ts': `export const text = 'before'`,
    'functions/.env': 'GREETING=hello',
  })
  assert.deepEqual(JSON.parse((await served.call('one')).text), ['before', 'hello'])
  served.write('functions/one/text.ts', `export const text = 'after'`)
  await eventually(async () => (await served.call('one')).text === '["after","hello"]', 'the file is used')
  served.write('functions/.env', 'GREETING=hi')
  await eventually(async () => (await served.call('one')).text === '["after","hi"]', 'the variable is used')
  served.write('functions/later/index.ts', answering('later'))
  await eventually(async () => (await served.call('later')).text === 'later', 'the function is served')
  assert.match(served.stderr(), /one\/text\.ts has changed/)
})

test('functions serve: a call that runs while a file changes ends with the old code', async () => {
  const code = (text: string) =>
    `Deno.serve(request => new Response(request.method === 'POST' ? request.body : '${text}'))`
  const served = await serve({ 'functions/pass/index.ts': code('old') })
  const { writer, read } = await openStream(`${served.origin}/pass`)
  served.write('functions/pass/index.ts', code('new'))
  await eventually(() => /has changed/.test(served.stderr()), 'the change is noticed')
  void writer.write(Buffer.from('more'))
  assert.equal(await read(), 'more')
  await writer.close()
  assert.equal(await read(), undefined)
  assert.equal((await served.call('pass')).text, 'new')
})

/** A call whose body is sent piece by piece. The function has answered with the first one. */
async function openStream(url: string) {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  void writer.write(Buffer.from('first'))
  const reply = await fetch(url, { method: 'POST', body: readable, duplex: 'half' } as RequestInit)
  const reader = reply.body!.getReader()
  const read = async () => {
    const { value } = await reader.read()
    return value && Buffer.from(value).toString()
  }
  assert.equal(await read(), 'first')
  return { writer, read }
}

test('functions serve: bodies are streamed in both directions', async () => {
  const served = await serve({
    'functions/pass/index.ts': `Deno.serve(request => new Response(request.body))`,
  })
  const { writer, read } = await openStream(`${served.origin}/pass`)
  void writer.write(Buffer.from('second'))
  assert.equal(await read(), 'second')
  await writer.close()
  assert.equal(await read(), undefined)
  const large = 'x'.repeat(5_000_000)
  assert.equal((await served.call('pass', { method: 'POST', body: large })).text, large)
})

test('functions serve: every call gets its answer, whether the function reads the body or not', async () => {
  const served = await serve({
    'functions/reads/index.ts': `Deno.serve(async request => new Response(String((await request.text()).length)))`,
    'functions/ignores/index.ts': `Deno.serve(() => new Response('too large', { status: 413 }))`,
  })
  for (let i = 0; i < 30; i++)
    assert.equal((await served.call('reads', { method: 'POST', body: 'short' })).text, '5')
  for (let i = 0; i < 10; i++) {
    const { status, text } = await served.call('ignores', { method: 'POST', body: 'x'.repeat(1_000_000) })
    assert.deepEqual([status, text], [413, 'too large'])
  }
})

test('functions serve: each function has its own import map', async () => {
  const using = `import { text } from 'lib'\nDeno.serve(() => new Response(text))\n`
  const served = await serve({
    'functions/a/index.ts': using,
    'functions/a/deno.json': '{ "imports": { "lib": "./lib.ts" } }',
    'functions/a/lib.ts': `export const text = 'a'`,
    'functions/b/index.ts': using,
    'functions/b/import_map.json': '{ "imports": { "lib": "../_shared/lib.ts" } }',
    'functions/_shared/lib.ts': `export const text = 'b'`,
  })
  assert.deepEqual([(await served.call('a')).text, (await served.call('b')).text], ['a', 'b'])
})

test('functions serve: a function that fails, ends its worker or cannot be loaded answers with an error', async () => {
  const served = await serve({
    'functions/throws/index.ts': `Deno.serve(() => { throw new Error('on purpose') })`,
    'functions/exits/index.ts': `Deno.serve(request => { if (request.method === 'POST') Deno.exit(7); return new Response('runs') })`,
    'functions/broken/index.ts': `import './nowhere.ts'\n${answering('x')}`,
  })
  const codeOf = async (path: string, init?: RequestInit) => {
    const { status, text } = await served.call(path, init)
    return [status, JSON.parse(text).code]
  }
  assert.deepEqual(await codeOf('throws'), [500, 'WORKER_ERROR'])
  assert.deepEqual(await codeOf('exits', { method: 'POST' }), [500, 'WORKER_ERROR'])
  assert.equal((await served.call('exits')).text, 'runs')
  assert.deepEqual(await codeOf('broken'), [503, 'BOOT_ERROR'])
  served.write('functions/broken/nowhere.ts', '')
  await eventually(async () => (await served.call('broken')).text === 'x', 'it is loaded again')
  const messages = served.logged().map(each => `${each.function} ${each.level} ${each.message}`)
  for (const expected of [
    /^throws error Error: on purpose\n {4}at throws\/index\.ts:1:/,
    /^exits error The worker has ended: exit code 7\.$/,
    /^broken error .*nowhere\.ts/,
  ])
    assert.ok(
      messages.some(each => expected.test(each)),
      `${expected} in ${messages.join('\n')}`,
    )
})

test('functions serve: browsers of any origin may call', async () => {
  const served = await serve({
    'functions/plain/index.ts': answering('x'),
    'functions/own/index.ts': `Deno.serve(() => new Response('y', { headers: { 'access-control-allow-origin': 'https://a.example' } }))`,
  })
  const headers = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-a' }
  const preflight = await served.call('plain', { method: 'OPTIONS', headers })
  assert.deepEqual([preflight.status, preflight.headers.get('access-control-allow-headers')], [204, 'x-a'])
  assert.equal((await served.call('plain')).headers.get('access-control-allow-origin'), '*')
  assert.equal((await served.call('own')).headers.get('access-control-allow-origin'), 'https://a.example')
  assert.equal((await served.call('own', { method: 'OPTIONS', headers })).text, 'y')
})

test('functions serve: process.env has the same variables as Deno.env', async () => {
  const served = await serve({
    'functions/node/index.ts': `import process from 'node:process'\n${showing('{ ...process.env }')}`,
    'functions/global/index.ts': showing('{ ...globalThis.process.env }'),
    'functions/.env': 'A=1',
  })
  for (const name of ['node', 'global']) {
    const { SB_EXECUTION_ID, ...others } = JSON.parse((await served.call(name)).text)
    assert.ok(SB_EXECUTION_ID.length > 0)
    assert.deepEqual(others, { A: '1', SB_REGION: 'local', DENO_DEPLOYMENT_ID: `local_${name}_0` })
  }
})

test('functions serve: without a project its variables are not set, and calls need no credential', async () => {
  const served = await serve(
    { 'functions/env/index.ts': showing('Deno.env.toObject()'), 'my.env': 'A=1\nB="two words"\n' },
    ['--env-file', 'my.env', '-o', 'text'],
    { PLATFORM_TOKEN: 'of-the-user' },
  )
  const variables = JSON.parse((await served.call('env')).text)
  assert.deepEqual([variables.A, variables.B, variables.SB_REGION], ['1', 'two words', 'local'])
  assert.deepEqual(
    Object.keys(variables).filter(name => /SUPABASE|PLATFORM|PATH/.test(name)),
    [],
  )
  assert.match(served.stderr(), /No project is linked, so SUPABASE_URL .* not set/)
  assert.match(served.stderr(), /Credentials are not checked/)
  await eventually(() => /info {3}env: GET \/functions\/v1\/env 200 in \d+ ms/.test(served.stdout()), 'text')
})

const caller = `[request.headers.get('x-platform-role'), Deno.env.get('SUPABASE_URL'), Deno.env.get('SUPABASE_ANON_KEY'), Deno.env.get('SUPABASE_SERVICE_ROLE_KEY') ?? null]`

test('functions serve: with a project, functions have its URL and keys, and calls need a user or service_role', async () => {
  const served = await serve(
    {
      'functions/env/index.ts': showing(caller),
      'functions/platform/index.ts': `Deno.serve(async () => {
      const apikey = Deno.env.get('SUPABASE_ANON_KEY')!
      return fetch(Deno.env.get('SUPABASE_URL') + '/whoami/v1', { headers: { apikey } })
    })`,
    },
    [],
    linked(),
  )
  const { anon_key, service_role_key } = project
  for (const headers of [{}, { apikey: anon_key }, { apikey: 'nonsense' }, { authorization: 'Bearer x' }]) {
    const refused = await served.call('env', { headers: headers as Record<string, string> })
    assert.deepEqual([refused.status, JSON.parse(refused.text).code], [401, 'unauthorized'])
  }
  const headers = { apikey: service_role_key, 'x-platform-role': 'forged' }
  assert.deepEqual(JSON.parse((await served.call('env', { headers })).text), [
    'service_role',
    `${platform.url}/v1/${project.id}`,
    anon_key,
    service_role_key,
  ])
  assert.equal(JSON.parse((await served.call('platform', { headers })).text).role, 'anon')
})

test('functions serve --no-verify-jwt: calls need no credential, and a valid one still tells who calls', async () => {
  const { token } = await platform.platform.mintToken({ body: { name: 'reader', scope: 'read' } })
  const served = await serve(
    { 'functions/env/index.ts': showing(caller) },
    ['env', '--no-verify-jwt', '-o', 'text'],
    { ...linked(), PLATFORM_TOKEN: token },
  )
  const roleWith = async (headers: Record<string, string>) =>
    JSON.parse((await served.call('env', { headers })).text)[0]
  assert.equal(await roleWith({}), 'anon')
  assert.equal(await roleWith({ apikey: 'nonsense' }), 'anon')
  assert.equal(await roleWith({ apikey: project.service_role_key }), 'service_role')
  assert.equal(JSON.parse((await served.call('env')).text)[3], null)
  assert.match(served.stderr(), /may not read the service_role key/)
})

test('functions serve: a platform that cannot be reached is a warning', async () => {
  const served = await serve({ 'functions/one/index.ts': answering('one') }, [], {
    ...linked(),
    PLATFORM_URL: 'http://127.0.0.1:1',
  })
  assert.match(served.stderr(), /warning: The linked project is not used.*cannot be reached/)
  assert.equal((await served.call('one')).text, 'one')
})

test('functions serve: a function may read its folder and not the files of the user', async () => {
  const served = await serve({
    'functions/files/index.ts': `Deno.serve(async request => {
      const path = await request.text()
      return Deno.readTextFile(path).then(text => new Response(text), error => new Response(error.name))
    })`,
    'functions/files/data.txt': 'data',
    secret: 'secret',
  })
  const read = async (path: string) =>
    (await served.call('files', { method: 'POST', body: join(served.cwd, path) })).text
  assert.equal(
    await read('functions/files/data.txt'),
    readFileSync(join(served.cwd, 'functions/files/data.txt'), 'utf8'),
  )
  // The directory is below /tmp, which is another one for functions.
  assert.match(await read('secret'), /^Not(?:Found|Capable)$/)
})

test('functions serve: invalid arguments fail with a suggestion', async () => {
  const cwd = temporaryDirectory({ 'functions/one/index.ts': answering('one'), 'empty/x/y': '' })
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  after(() => taken.close())
  const { port } = taken.address() as { port: number }
  for (const [args, code, words] of [
    [['--path', 'nowhere'], 'folder_missing', /functions new/],
    [['--path', 'empty'], 'function_missing', /no folder there has an index\.ts/],
    [['two'], 'function_missing', /functions\/two\/index\.ts does not exist/],
    [['../one'], 'usage_invalid_value', /letters, digits/],
    [['--port', 'http'], 'usage_invalid_value', /0 to 65535/],
    [['--port', String(port)], 'port_unavailable', /another program listens.*--port/],
    [['--env-file', 'nowhere.env'], 'file_unreadable', /--env-file/],
  ] as const) {
    const refused = await run(['functions', 'serve', ...args], { cwd, env: { DENO_DIR: cache } })
    assert.deepEqual(codes(refused), [1, code], `${args.join(' ')}: ${refused.stdout}`)
    assert.match(`${refused.json.error.message} ${refused.json.error.suggestion}`, words)
  }
})
