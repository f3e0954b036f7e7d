// The program itself, without a platform.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { beginProcess, bin, freePort, plinth, plinthProcess, temporaryDirectory } from './plinth.ts'

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))
const closed = `http://127.0.0.1:${await freePort()}`
const nowhere = { PLATFORM_URL: closed, PLATFORM_TOKEN: 'x' }

test('--help prints text to stdout, also into a pipe', async () => {
  for (const ran of [
    await plinthProcess(['--help']),
    await plinth(['--help']),
    await plinth(['-h']),
    await plinth(['help']),
    await plinth([]),
  ]) {
    assert.equal(ran.code, 0)
    assert.match(ran.stdout, /Usage: plinth <command>/)
    assert.match(ran.stdout, /projects/)
    assert.equal(ran.stderr, '')
  }
})

test('every command has its own help', async () => {
  const { stdout } = await plinth(['projects', 'delete', '--help'])
  assert.match(stdout, /Usage: plinth projects delete <id>/)
  assert.match(stdout, /--confirm <name>/)
  assert.match(stdout, /--output <format> .*default json into a pipe$/m)
  const { stdout: diff } = await plinth(['branch', 'diff', '--help'])
  assert.match(diff, /--output <format> +text or json; default text, also into a pipe$/m)
})

test('--version prints the version and nothing else', async () => {
  for (const flag of ['--version', '-V'])
    assert.deepEqual((({ code, stdout }) => [code, stdout])(await plinth([flag])), [0, `${version}\n`])
})

test('--help and --version do not read the files of the directory', async () => {
  const cwd = temporaryDirectory({ 'plinth.json': '{', '.plinth/link.json': '{' })
  assert.equal((await plinth(['--help'], { cwd })).code, 0)
  assert.equal((await plinth(['--version'], { cwd })).code, 0)
})

test('an unknown command fails in JSON when piped, and suggests the closest command', async () => {
  const { code, json, stderr } = await plinthProcess(['projets', 'list'])
  assert.equal(code, 1)
  assert.deepEqual(json, {
    ok: false,
    error: {
      code: 'usage_unknown_command',
      message: 'There is no command "projets".',
      suggestion: 'Did you mean plinth projects?',
    },
  })
  assert.equal(stderr, '')
})

test('errors as text have three parts on stderr and leave stdout empty', async () => {
  const { code, stdout, stderr } = await plinth(['projects', 'list', '-o', 'text'], { env: nowhere })
  assert.equal(code, 1)
  assert.equal(stdout, '')
  assert.match(
    stderr,
    /^error: plinth projects list failed \(connection_failed\)\n {2}why: .*\n {2}fix: .*\n$/,
  )
})

test('an unreachable platform fails with a suggestion', async () => {
  for (const args of [['health'], ['status'], ['projects', 'list'], ['token', 'list']]) {
    const { code, json } = await plinth(args, { env: nowhere })
    assert.equal(code, 1)
    assert.equal(json.error.code, 'connection_failed')
    assert.equal(json.error.message, `${closed} cannot be reached: nothing listens there.`)
    assert.match(json.error.suggestion, /plinth start/)
  }
})

test('a missing token fails with the variable to set; health needs no token', async () => {
  const env = { PLATFORM_URL: closed }
  const { code, json } = await plinth(['projects', 'list'], { env, cwd: temporaryDirectory() })
  assert.deepEqual([code, json.error.code], [1, 'token_missing'])
  assert.match(json.error.suggestion, /PLATFORM_TOKEN/)
  assert.equal((await plinth(['health'], { env })).json.error.code, 'connection_failed')
})

test('--output overrides PLATFORM_OUTPUT, and an unknown format is rejected', async () => {
  const env = { ...nowhere, PLATFORM_OUTPUT: 'text' }
  assert.match((await plinth(['health'], { env })).stderr, /^error:/)
  assert.equal((await plinth(['health', '--output=json'], { env })).json.ok, false)
  assert.match((await plinth(['health', '-o', 'xml'])).json.error.message, /text, json, env/)
  assert.equal((await plinth(['projects', 'list', '-o', 'env'], { env })).code, 1)
})

test('output into a pipe has no colours', async () => {
  const { stderr } = await plinth(['health', '-o', 'text'], { env: nowhere })
  assert.ok(!stderr.includes('\x1b'))
})

test('--debug prints the cause of an error to stderr', async () => {
  const { json, stderr } = await plinth(['health', '--debug'], { env: nowhere })
  assert.equal(json.ok, false)
  assert.match(stderr, /ECONNREFUSED/)
})

test('completion prints text, also into a pipe', async () => {
  assert.match((await plinthProcess(['completion', 'bash'])).stdout, /^_plinth\(\)/)
  assert.equal((await plinth(['completion', 'words', '--', 'projects', 'cre'])).stdout, 'create\n')
})

/** Sends the signal while the command waits for a response that never comes. */
async function signalled(name: NodeJS.Signals, node: string[] = []) {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const env = { PLATFORM_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  const child = beginProcess(['health'], { env, node })
  server.once('connection', () => child.kill(name))
  const ended = await new Promise<unknown[]>(resolve =>
    child.on('close', (code, signal) => resolve([code, signal])),
  )
  server.close()
  return ended
}

test('a pipe that is closed early ends with 0 and without a message', async () => {
  for (const args of [['completion', 'bash'], ['--help']]) {
    const child = beginProcess(args)
    child.stdout.destroy()
    const [stderr, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
    assert.deepEqual([code, stderr], [0, ''], args.join(' '))
  }
})

test('Ctrl-C ends with 130', async () => {
  assert.deepEqual(await signalled('SIGINT'), [130, null])
})

// Simulates an older Node: the version is too low and the executable is not the one npm installed.
const older = (executable: string) => [
  '--import',
  `data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"20.1.0"}});process.execPath=${JSON.stringify(executable)}`,
]

test('an older Node runs the one npm installed, with arguments, streams, exit code and signals', async () => {
  const node = older('/bin/sh')
  assert.deepEqual((({ code, stdout }) => [code, stdout])(await plinthProcess(['-V'], { node })), [
    0,
    `${version}\n`,
  ])
  const failed = await plinthProcess(['nonsense'], { node })
  assert.deepEqual([failed.code, failed.json.ok], [1, false])
  assert.deepEqual(await signalled('SIGINT', node), [130, null])
  assert.deepEqual(await signalled('SIGTERM', node), [null, 'SIGTERM'])
})

test('an older Node without a newer one installed fails with one sentence', async () => {
  const { code, stdout, stderr } = await plinthProcess(['--help'], { node: older(process.execPath) })
  assert.equal(code, 1)
  assert.equal(stdout, '')
  assert.match(stderr, /^plinth needs Node 24 or newer .*npm ci/)
})

test('--help loads no package, neither the contract nor any command', async () => {
  const { stderr } = await plinthProcess(['--help'], {
    node: ['--import', tracer],
    env: { NODE_DISABLE_COMPILE_CACHE: '1' },
  })
  const loaded = stderr.split('\n').filter(line => line.startsWith('loaded '))
  assert.ok(
    loaded.some(line => line.includes('/src/help.ts')),
    stderr,
  )
  assert.deepEqual(
    loaded.filter(line => /contract|node_modules|src\/commands\//.test(line)),
    [],
  )
})
const tracer = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  registerHooks({ load(url, context, next) { process._rawDebug('loaded ' + url); return next(url, context) } })
`)}`

test('the program starts on Node 20: it imports no name that a later Node added', () => {
  const source = readFileSync(bin, 'utf8')
  assert.match(source, /^#!\/usr\/bin\/env node\n/)
  const known = ['existsSync', 'realpathSync', 'homedir', 'dirname', 'join', 'fileURLToPath']
  const named = [...source.matchAll(/^import \{ (.*) \}/gm)].flatMap(match => match[1]!.split(', '))
  assert.deepEqual(
    named.filter(name => !known.includes(name)),
    [],
  )
})
