// How the program behaves as a program, before any platform is involved.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { begin, bin, freePort, plinth, workplace } from './plinth.ts'

const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))
const closed = `http://127.0.0.1:${await freePort()}`
const nowhere = { PLATFORM_URL: closed, PLATFORM_TOKEN: 'x' }

test('--help describes the commands on stdout, as text also when piped', async () => {
  for (const args of [['--help'], ['-h'], ['help'], []]) {
    const { code, stdout, stderr } = await plinth(args)
    assert.equal(code, 0)
    assert.match(stdout, /Usage: plinth <command>/)
    assert.match(stdout, /projects/)
    assert.equal(stderr, '')
  }
})

test('every command has a help of its own', async () => {
  const { stdout } = await plinth(['projects', 'delete', '--help'])
  assert.match(stdout, /Usage: plinth projects delete <id>/)
  assert.match(stdout, /--confirm <name>/)
})

test('--version prints the version and nothing else', async () => {
  for (const flag of ['--version', '-V'])
    assert.deepEqual((({ code, stdout }) => [code, stdout])(await plinth([flag])), [0, `${version}\n`])
})

test('help and version do not read what lies in the directory', async () => {
  const cwd = workplace({ 'plinth.json': '{', '.plinth/link.json': '{' })
  assert.equal((await plinth(['--help'], { cwd })).code, 0)
  assert.equal((await plinth(['--version'], { cwd })).code, 0)
})

test('a mistyped command is answered in JSON when piped, with what was meant', async () => {
  const { code, json, stderr } = await plinth(['projets', 'list'])
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

test('errors in text are three parts on stderr, and stdout stays empty', async () => {
  const { code, stdout, stderr } = await plinth(['projects', 'list', '-o', 'text'], { env: nowhere })
  assert.equal(code, 1)
  assert.equal(stdout, '')
  assert.match(
    stderr,
    /^error: plinth projects list failed \(connection_failed\)\n {2}why: .*\n {2}fix: .*\n$/,
  )
})

test('a platform that cannot be reached is a failure with a way out', async () => {
  for (const args of [['health'], ['status'], ['projects', 'list'], ['token', 'list']]) {
    const { code, json } = await plinth(args, { env: nowhere })
    assert.equal(code, 1)
    assert.equal(json.error.code, 'connection_failed')
    assert.equal(json.error.message, `${closed} cannot be reached: nothing listens there.`)
    assert.match(json.error.suggestion, /plinth start/)
  }
})

test('without a token the answer says what to set; health needs none', async () => {
  const env = { PLATFORM_URL: closed }
  const { code, json } = await plinth(['projects', 'list'], { env, cwd: workplace() })
  assert.deepEqual([code, json.error.code], [1, 'token_missing'])
  assert.match(json.error.suggestion, /PLATFORM_TOKEN/)
  assert.equal((await plinth(['health'], { env })).json.error.code, 'connection_failed')
})

test('PLATFORM_OUTPUT decides, --output decides over it, a wrong format is named', async () => {
  const env = { ...nowhere, PLATFORM_OUTPUT: 'text' }
  assert.match((await plinth(['health'], { env })).stderr, /^error:/)
  assert.equal((await plinth(['health', '--output=json'], { env })).json.ok, false)
  assert.match((await plinth(['health', '-o', 'xml'])).json.error.message, /text, json, env/)
  assert.equal((await plinth(['projects', 'list', '-o', 'env'], { env })).code, 1)
})

test('colours are for terminals: never when piped', async () => {
  const { stderr } = await plinth(['health', '-o', 'text'], { env: nowhere })
  assert.ok(!stderr.includes('\x1b'))
})

test('--debug shows where an error came from, on stderr', async () => {
  const { json, stderr } = await plinth(['health', '--debug'], { env: nowhere })
  assert.equal(json.ok, false)
  assert.match(stderr, /ECONNREFUSED/)
})

test('completion is text also when piped', async () => {
  assert.match((await plinth(['completion', 'bash'])).stdout, /^_plinth\(\)/)
  assert.equal((await plinth(['completion', 'words', '--', 'projects', 'cre'])).stdout, 'create\n')
})

/** Sends the signal once the command waits for an answer that never comes. */
async function signalled(name: NodeJS.Signals, node: string[] = []) {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const env = { PLATFORM_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  const child = begin(['health'], { env, node })
  server.once('connection', () => child.kill(name))
  const ended = await new Promise<unknown[]>(resolve =>
    child.on('close', (code, signal) => resolve([code, signal])),
  )
  server.close()
  return ended
}

test('Ctrl-C ends with 130', async () => {
  assert.deepEqual(await signalled('SIGINT'), [130, null])
})

// As an older Node sees it: the version is too low and the executable is not the one npm installed.
const older = (executable: string) => [
  '--import',
  `data:text/javascript,Object.defineProperty(process,"versions",{value:{node:"20.1.0"}});process.execPath=${JSON.stringify(executable)}`,
]

test('an older Node hands over to the one npm installed, with arguments, streams, exit code and signals', async () => {
  const node = older('/bin/sh')
  assert.deepEqual((({ code, stdout }) => [code, stdout])(await plinth(['-V'], { node })), [
    0,
    `${version}\n`,
  ])
  const failed = await plinth(['nonsense'], { node })
  assert.deepEqual([failed.code, failed.json.ok], [1, false])
  assert.deepEqual(await signalled('SIGINT', node), [130, null])
  assert.deepEqual(await signalled('SIGTERM', node), [null, 'SIGTERM'])
})

test('an older Node without a newer one at hand says so in a sentence', async () => {
  const { code, stdout, stderr } = await plinth(['--help'], { node: older(process.execPath) })
  assert.equal(code, 1)
  assert.equal(stdout, '')
  assert.match(stderr, /^plinth needs Node 24 or newer .*npm ci/)
})

test('help loads neither the contract nor any command', async () => {
  const { stderr } = await plinth(['--help'], {
    node: ['--import', tracer],
    env: { NODE_DISABLE_COMPILE_CACHE: '1' },
  })
  const loaded = stderr.split('\n').filter(line => line.startsWith('loaded '))
  assert.ok(
    loaded.some(line => line.includes('/src/help.ts')),
    stderr,
  )
  assert.deepEqual(
    loaded.filter(line => /contract|typebox|src\/commands\//.test(line)),
    [],
  )
})
const tracer = `data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module'
  registerHooks({ load(url, context, next) { process._rawDebug('loaded ' + url); return next(url, context) } })
`)}`

test('the program begins on Node 20: it finds Node by itself and imports no name that came later', () => {
  const source = readFileSync(bin, 'utf8')
  assert.match(source, /^#!\/usr\/bin\/env node\n/)
  const known = ['existsSync', 'realpathSync', 'homedir', 'dirname', 'join', 'fileURLToPath']
  const named = [...source.matchAll(/^import \{ (.*) \}/gm)].flatMap(match => match[1]!.split(', '))
  assert.deepEqual(
    named.filter(name => !known.includes(name)),
    [],
  )
})
