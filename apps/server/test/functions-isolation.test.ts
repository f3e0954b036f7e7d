// What the code of a function tries against the platform, the machine and other projects. Each attempt runs in a real
// worker and reports what it got.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { type FunctionsApi, functionsProject, saying } from '../../../conformance/functions.ts'
import { freshTarget, type Target } from '../../../conformance/target.ts'

let it: Target
let own: FunctionsApi
let other: FunctionsApi
let port: number
const internal = createServer((_request, answer) => answer.end('INTERNAL'))

before(async () => {
  await new Promise<void>(resolve => internal.listen(0, '::', resolve))
  port = (internal.address() as AddressInfo).port
  it = await freshTarget({ PLATFORM_RATE_LIMIT_ANON: '0' })
  own = await functionsProject(it)
  other = await functionsProject(it)
  await other.deploy(
    'secret',
    'export const secret = "of the other project"; export default () => new Response("x")',
  )
  await other.call('secret')
})
after(async () => {
  await it.stop()
  internal.close()
})

/** Runs each attempt and returns its result as text: `ok: …` or the name of the error. */
async function attempts(
  tries: Record<string, string>,
  parameters: object = {},
): Promise<Record<string, string>> {
  const list = Object.entries(tries).map(
    ([name, code]) => `[${JSON.stringify(name)}, async () => { ${code} }]`,
  )
  await own.deploy(
    'attempts',
    `
    const tries = [${list.join(',\n')}]
    let parameters
    const p = name => parameters[name]
    const short = value => String(value).slice(0, 200)
    Deno.serve(async req => {
      parameters = await req.json()
      const result = {}
      for (const [name, attempt] of tries) {
        const timeout = new Promise((_, reject) => setTimeout(() => reject(new Error('timeout')), 3000))
        try { result[name] = 'ok: ' + short(await Promise.race([attempt(), timeout])) }
        catch (error) { result[name] = (error?.name ?? 'error') + ': ' + short(error?.message) }
      }
      return Response.json(result)
    })`,
  )
  const reply = await own.call('attempts', { body: parameters })
  assert.equal(reply.status, 200, reply.text)
  return reply.body
}

function assertAllFail(results: Record<string, string>): void {
  const succeeded = Object.entries(results).filter(([, result]) => result.startsWith('ok'))
  assert.deepEqual(succeeded, [])
}

const read = (path: string) => ({
  [`Deno ${path}`]: `return await Deno.readTextFile(${path})`,
  [`node ${path}`]: `return (await import('node:fs')).readFileSync(${path}, 'utf8')`,
  [`import ${path}`]: `return JSON.stringify(await import('file://' + ${path}, { with: { type: 'text' } }))`,
  [`fetch ${path}`]: `return await (await fetch('file://' + ${path})).text()`,
})

test('isolation: files of the machine, of /proc and of the platform cannot be read', async () => {
  const paths = [
    '/etc/passwd',
    '/etc/hostname',
    '/proc/self/environ',
    '/proc/self/maps',
    '/proc/1/cmdline',
    '/proc/self/fd/0',
  ]
  const tries = Object.assign({}, ...paths.map(path => read(JSON.stringify(path))))
  assertAllFail(await attempts(tries))
  assertAllFail(
    await attempts({
      'list of /proc': `return [...Deno.readDirSync('/proc')].length`,
      'list of the root': `return [...Deno.readDirSync('/')].length`,
      'parent of the code': `return [...Deno.readDirSync(new URL('../../../', import.meta.url))].length`,
      'the host program': `return await Deno.readTextFile(new URL(Deno.mainModule))`,
      'the program itself': `return (await Deno.readFile(Deno.execPath())).length`,
      'write beside the code': `await Deno.writeTextFile(new URL('./index.ts', import.meta.url), 'x')`,
      'write to /tmp of the machine': `(await import('node:fs')).writeFileSync('/tmp/plinth-escape', 'x')`,
      'climb out of /tmp': `return await Deno.readTextFile('/tmp/../../../../../../../../../etc/hostname')`,
      'a symbolic link': `await Deno.symlink('/etc/passwd', (await Deno.makeTempDir()) + '/link')`,
      'a hard link': `await Deno.link('/etc/passwd', (await Deno.makeTempDir()) + '/link')`,
      'another root': `(await import('node:process')).chdir('/')`,
      'a database file': `new (await import('node:sqlite')).DatabaseSync('/tmp/plinth-escape.db')`,
      'an attached database': `new (await import('node:sqlite')).DatabaseSync(':memory:').exec("attach '/tmp/plinth-escape.db' as x; create table x.t(a)")`,
    }),
  )
})

test('isolation: a function has a directory for temporary files of its own', async () => {
  const results = await attempts({
    file: `const path = await Deno.makeTempFile(); await Deno.writeTextFile(path, 'kept'); return await Deno.readTextFile(path)`,
  })
  assert.equal(results['file'], 'ok: kept')
  await attempts({ file: `await Deno.writeTextFile('/tmp/plinth-escape', 'x')` })
  assert.equal(existsSync('/tmp/plinth-escape'), false)
})

test('isolation: the code, modules and temporary files of another project cannot be read', async () => {
  const here = 'import.meta.url'
  const theirs = `new URL(${here}).pathname.replace(${JSON.stringify(own.project.id)}, p('other')).split('/').slice(0, -3).join('/')`
  assertAllFail(
    await attempts(
      {
        directory: `return [...Deno.readDirSync(${theirs})].map(entry => entry.name).join()`,
        'all projects': `return [...Deno.readDirSync(${theirs} + '/..')].map(entry => entry.name).join()`,
        stat: `return Deno.statSync(${theirs}).isDirectory`,
        climbing: `return [...Deno.readDirSync(new URL('../../../' + p('other'), ${here}))].length`,
        import: `return (await import('file://' + ${theirs} + '/index.ts')).secret`,
        require: `return (await import('node:module')).createRequire(${here})(${theirs} + '/package.json')`,
        worker: `return await new Promise((resolve, reject) => {
          const worker = new Worker('data:text/javascript,import { secret } from "file://' + ${theirs} + '/build/index.ts"; postMessage(secret)', { type: 'module' })
          worker.onmessage = event => resolve(event.data)
          worker.onerror = event => { event.preventDefault(); reject(new Error(event.message)) }
        })`,
      },
      { other: other.project.id },
    ),
  )
})

test('isolation: programs, foreign functions, signals, debuggers and other permissions are refused', async () => {
  assertAllFail(
    await attempts({
      command: `return new TextDecoder().decode((await new Deno.Command('id').output()).stdout)`,
      'the shell': `return new TextDecoder().decode((await new Deno.Command('/bin/sh', { args: ['-c', 'id'] }).output()).stdout)`,
      'itself again': `return (await new Deno.Command(Deno.execPath(), { args: ['eval', '1'] }).output()).success`,
      exec: `return (await import('node:child_process')).execFileSync('/bin/id').toString()`,
      fork: `const { fork } = await import('node:child_process')
        return await new Promise((resolve, reject) => fork('x').on('error', reject).on('spawn', () => resolve('forked')))`,
      ffi: `return Deno.dlopen('libc.so.6', { getpid: { parameters: [], result: 'i32' } }).symbols.getpid()`,
      pointer: `return Deno.UnsafePointer.create(4096n)`,
      addon: `return (await import('node:process')).dlopen({ exports: {} }, '/x.node')`,
      'kill the platform': `Deno.kill(Deno.ppid, 'SIGKILL')`,
      'node kill': `(await import('node:process')).kill(Deno.ppid, 'SIGTERM')`,
      inspector: `(await import('node:inspector')).open(0)`,
      'host name': `return Deno.hostname()`,
      'network interfaces': `return JSON.stringify(Deno.networkInterfaces())`,
      'user id': `return Deno.uid()`,
      'request permission': `const { state } = await Deno.permissions.request({ name: 'run' }); if (state !== 'granted') throw new Error(state)`,
      'request all reads': `const { state } = await Deno.permissions.request({ name: 'read' }); if (state !== 'granted') throw new Error(state)`,
    }),
  )
})

test('isolation: Unix sockets without a file cannot be reached, by any way', async () => {
  const results = await attempts({
    Deno: `(await Deno.connect({ transport: 'unix', path: '\\0plinth-abstract-name' })).close()`,
    node: `const { connect } = await import('node:net')
      await new Promise((resolve, reject) => connect({ path: '\\0plinth-abstract-name' }).on('error', reject).on('connect', resolve))`,
    listening: `Deno.listen({ transport: 'unix', path: '\\0plinth-abstract-name' })`,
  })
  assertAllFail(results)
  // A refused connection would have asked the kernel for the socket.
  for (const [name, result] of Object.entries(results)) assert.doesNotMatch(result, /refused|timeout/i, name)
})

test('isolation: proxies, whose address is not checked, and threads without these rules are refused', async () => {
  let connections = 0
  internal.on('connection', () => connections++)
  assertAllFail(
    await attempts(
      {
        socks: `const client = Deno.createHttpClient({ proxy: { url: 'socks5://127.1:' + p('port') } })
          return (await fetch('http://example.com/', { client })).status`,
        'another name': `const client = Deno.createHttpClient({ proxy: { url: 'socks5://localtest.me:' + p('port') } })
          return (await fetch('http://example.com/', { client })).status`,
        'a thread': `return await new Promise((resolve, reject) => {
          const worker = new Worker('data:text/javascript,postMessage("started")', { type: 'module' })
          worker.onmessage = event => resolve(event.data)
        })`,
      },
      { port },
    ),
  )
  assert.equal(connections, 0)
})

test('isolation: a thread of node:worker_threads, which would have an unchanged Deno, does not run', async () => {
  let connections = 0
  internal.on('connection', () => connections++)
  await own.deploy(
    'threads',
    `
    import { Worker } from 'node:worker_threads'
    Deno.serve(async req => {
      const port = await req.text()
      const code = \`
        const { parentPort } = require('node:worker_threads')
        const client = Deno.createHttpClient({ proxy: { url: 'socks5://127.1:\${port}' } })
        fetch('http://example.com/', { client }).catch(error => error.message).then(text => parentPort.postMessage(String(text)))\`
      return await new Promise(resolve => {
        const worker = new Worker(code, { eval: true })
        worker.on('message', text => resolve(new Response('started ' + text)))
        worker.on('error', error => resolve(new Response('refused', { status: 403 })))
      })
    })`,
  )
  const reply = await own.call('threads', { raw: Buffer.from(String(port)) })
  assert.notEqual(reply.status, 200, reply.text)
  assert.equal(connections, 0)
})

test('isolation: a worker with more permissions than its creator ends the process', async () => {
  const name = 'more-permissions'
  await own.deploy(
    name,
    `Deno.serve(() => new Promise(resolve => {
      const worker = new Worker('data:text/javascript,postMessage(Deno.readTextFileSync("/etc/passwd"))', { type: 'module', deno: { permissions: { read: true } } })
      worker.onmessage = event => resolve(new Response(event.data))
    }))`,
  )
  const reply = await own.call(name)
  assert.equal(reply.status, 500, reply.text)
  assert.doesNotMatch(reply.text, /root:/)
})

test('isolation: the environment has only what the platform gives', async () => {
  const results = await attempts({
    all: `return Object.keys(Deno.env.toObject()).sort().join()`,
    node: `return Object.keys((await import('node:process')).env).sort().join()`,
    named: `return String((await import('node:process')).env.PATH ?? Deno.env.get('CONTROL_PLANE_SECRET') ?? 'none')`,
  })
  const given =
    'ok: DENO_DEPLOYMENT_ID,SB_EXECUTION_ID,SB_REGION,SUPABASE_ANON_KEY,SUPABASE_JWKS,SUPABASE_SERVICE_ROLE_KEY,SUPABASE_URL'
  assert.deepEqual(results, { all: given, node: given, named: 'ok: none' })
})

test('isolation: loopback, private, metadata and mapped addresses cannot be reached, by number or by name', async () => {
  const hosts = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    'localhost',
    'LOCALHOST',
    'localhost.',
    '0.0.0.0',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[64:ff9b::7f00:1]',
    '[::127.0.0.1]',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.0.1',
    '169.254.169.254',
    '100.64.0.1',
    '[fd00::1]',
    '[fe80::1]',
    'ip6-localhost',
  ]
  const tries: Record<string, string> = {}
  for (const host of hosts) {
    const name = JSON.stringify(host.replace(/[[\]]/g, ''))
    tries[`fetch ${host}`] = `return await (await fetch('http://${host}:' + p('port') + '/')).text()`
    tries[`connect ${host}`] = `(await Deno.connect({ hostname: ${name}, port: p('port') })).close()`
    tries[`node ${host}`] = `return await new Promise(async (resolve, reject) => {
      const socket = (await import('node:net')).connect({ host: ${name}, port: p('port') }, () => resolve('connected'))
      socket.on('error', reject)
    })`
  }
  assertAllFail(await attempts(tries, { port }))
})

test('isolation: IPv6 is closed by the kernel, because Deno knows no IPv6 ranges', async () => {
  const results = await attempts({
    public: `(await Deno.connect({ hostname: '2606:4700::1111', port: 443 })).close()`,
    'a private one': `(await Deno.connect({ hostname: 'fd00::1', port: 443 })).close()`,
  })
  for (const result of Object.values(results)) assert.match(result, /Address family not supported/)
})

test('isolation: a list of allowed hosts closes all others, and the function still runs', async () => {
  const narrow = await functionsProject(it)
  await narrow.deploy(
    'asking',
    `Deno.serve(async req => {
      const ask = async hostname => { try { (await Deno.connect({ hostname, port: 9 })).close(); return 'connected' } catch (error) { return error.name } }
      const own = await fetch(Deno.env.get('SUPABASE_URL') + '/rest/v1/', { headers: { apikey: Deno.env.get('SUPABASE_SERVICE_ROLE_KEY') } })
      return Response.json({ other: await ask('198.41.0.4'), loopback: await ask('127.0.0.1'), own: own.status })
    })`,
  )
  const set = (functions: unknown) =>
    it.manage('PATCH', `/projects/${narrow.project.id}`, { settings: { functions } })
  for (const allowed_hosts of [[], ['api.example.com', '*.example.org:443', '127.0.0.1']]) {
    assert.equal((await set({ allowed_hosts })).status, 200)
    assert.deepEqual((await narrow.call('asking')).body, {
      other: 'NotCapable',
      loopback: 'NotCapable',
      own: 200,
    })
  }
  for (const allowed_hosts of ['x', [1], ['http://x'], ['a b'], [''], ['a,b']])
    assert.equal((await set({ allowed_hosts })).status, 400, JSON.stringify(allowed_hosts))
})

test('isolation: the management port, the internal port, other sockets and listening are refused', async () => {
  const platformPort = Number(new URL(it.url).port)
  const own_ = `new URL(import.meta.url).pathname.split('/').slice(0, -5).join('/')`
  assertAllFail(
    await attempts(
      {
        management: `return (await fetch('http://127.0.0.1:' + p('port') + '/api/v1/projects')).status`,
        'a proxy': `return await (await fetch('http://example.com/', { client: Deno.createHttpClient({ proxy: { url: 'http://127.0.0.1:' + p('port') } }) })).text()`,
        'a SOCKS proxy': `return await (await fetch('http://example.com/', { client: Deno.createHttpClient({ proxy: { url: 'socks5://127.0.0.1:' + p('port') } }) })).text()`,
        websocket: `return await new Promise((resolve, reject) => { const s = new WebSocket('ws://127.0.0.1:' + p('port')); s.onopen = resolve; s.onerror = () => reject(new Error('refused')) })`,
        'a Unix socket': `(await Deno.connect({ transport: 'unix', path: '/var/run/postgresql/.s.PGSQL.5432' })).close()`,
        'sockets of workers': `return [...Deno.readDirSync(${own_} + '/run')].length`,
        listen: `Deno.listen({ port: 0 })`,
        'listen on loopback': `Deno.listen({ port: 0, hostname: '127.0.0.1' })`,
        'node listen': `return await new Promise(async (resolve, reject) => { const s = (await import('node:net')).createServer(); s.on('error', reject); s.listen(0, '127.0.0.1', resolve) })`,
        'a name server': `return await Deno.resolveDns('example.com', 'A', { nameServer: { ipAddr: '127.0.0.1', port: p('port') } })`,
      },
      { port: platformPort },
    ),
  )
})

test('isolation: remote code cannot be imported', async () => {
  assertAllFail(
    await attempts(
      {
        http: `return Object.keys(await import('http://127.0.0.1:' + p('port') + '/x.js')).join()`,
        https: `return Object.keys(await import('https://example.com/' + 'x.js')).join()`,
        jsr: `return Object.keys(await import('jsr:' + '@std/path')).join()`,
        npm: `return Object.keys(await import('npm:' + 'is-odd@3')).join()`,
      },
      { port },
    ),
  )
})

test('isolation: an anon caller learns nothing of the platform from an error', async () => {
  await own.deploy('failing', {
    verify_jwt: false,
    code: `Deno.serve(() => { throw new Error('/secret/path') })`,
  })
  const reply = await own.callOpen('failing')
  assert.doesNotMatch(reply.text, /secret|file:|index\.ts/)
  assert.equal((await other.call('secret')).status, 200)
  await own.deploy('fine', saying('fine'))
  assert.equal((await own.call('fine')).text, 'fine')
})
