// Functions of a project, with a real platform.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { CreatedProject } from '@plinth/contract/projects.ts'
import { eventually } from '../../server/test/eventually.ts'
import { startPlatform, type TestPlatform } from '../../server/test/harness.ts'
import { begin, type RunOptions, plinth as run, temporaryDirectory } from './plinth.ts'
import { recordingProxy } from './recording-proxy.ts'
import { below, codes } from './storage-project.ts'

let platform: TestPlatform
let project: CreatedProject
before(async () => {
  platform = await startPlatform()
  project = await platform.createProject()
})
after(() => platform.stop())

const environment = () => ({
  PLATFORM_URL: platform.url,
  PLATFORM_TOKEN: platform.adminToken,
  PLATFORM_PROJECT: project.id,
})

/** A directory with files, and the commands in it. */
function directory(files: Record<string, string> = {}) {
  const cwd = temporaryDirectory(files)
  const functions = (args: string[], options: RunOptions = {}) =>
    run(['functions', ...args], { cwd, ...options, env: { ...environment(), ...options.env } })
  const succeed = async (...args: string[]) => {
    const ran = await functions(args)
    assert.equal(ran.code, 0, `${args.join(' ')}: ${ran.stdout} ${ran.stderr}`)
    return ran
  }
  return { cwd, functions, succeed, read: (path: string) => readFileSync(join(cwd, path), 'utf8') }
}

const answering = (text: string) => `Deno.serve(() => new Response(${JSON.stringify(text)}))\n`
const readToken = async () =>
  (await platform.platform.mintToken({ body: { name: 'reader', scope: 'read' } })).token

test('functions new: writes a function that can be deployed and called, and overwrites nothing', async () => {
  const { succeed, functions, read } = directory()
  assert.equal((await succeed('new', 'first')).json.data.path, 'functions/first/index.ts')
  const code = read('functions/first/index.ts')
  assert.deepEqual(codes(await functions(['new', 'first'])), [1, 'folder_exists'])
  assert.equal(read('functions/first/index.ts'), code)
  await succeed('deploy', 'first')
  const called = await succeed('invoke', 'first', '--body', '{"name":"Ann"}')
  assert.equal(called.stdout, '{"message":"Hello Ann!"}')
})

test('functions new: uses supabase/functions if only that exists', async () => {
  const { succeed } = directory({ 'supabase/functions/_shared/a.ts': '' })
  assert.equal((await succeed('new', 'x')).json.data.path, 'supabase/functions/x/index.ts')
  const both = directory({ 'supabase/functions/a/index.ts': '', 'functions/b/index.ts': '' })
  assert.equal((await both.succeed('new', 'x')).json.data.path, 'functions/x/index.ts')
})

test('functions deploy: creates a function, then new versions of it, and list shows them', async () => {
  const { succeed, cwd } = directory({ 'functions/steps/index.ts': answering('one') })
  const made = (await succeed('deploy', 'steps', '--no-verify-jwt')).json.data
  assert.deepEqual([made.name, made.version, made.verify_jwt], ['steps', 1, false])
  assert.equal(made.url, `${project.api_url}/functions/v1/steps`)
  assert.equal(await (await fetch(made.url)).text(), 'one')

  writeFileSync(join(cwd, 'functions/steps/index.ts'), answering('two'))
  const again = await succeed('deploy', 'steps', '-o', 'text')
  assert.match(again.stdout, /^Deployed steps\n\n {2}version +2\n {2}verify JWT +no\n {2}URL +http/)
  assert.match(again.stderr, /Deploying steps from functions\/steps: 1 file, 38 B/)
  assert.match(again.stderr, /Call it: plinth functions invoke steps, .* curl http/)
  assert.equal(await (await fetch(made.url)).text(), 'two')
  assert.equal((await succeed('deploy', 'steps', '--verify-jwt')).json.data.verify_jwt, true)

  const listed = (await succeed('list')).json.data.functions.find((each: any) => each.name === 'steps')
  assert.equal(listed.version, 3)
  assert.match(
    (await succeed('list', '-o', 'text')).stdout,
    /^NAME +VERSION +VERIFY JWT +UPDATED\n(.*\n)*steps +3 +yes +\d{4}-/,
  )
})

test('functions deploy and download: every file keeps its bytes; hidden files and node_modules stay out', async () => {
  const { succeed, functions, cwd } = directory({
    'functions/files/index.ts': `import { a } from './lib/a.ts'\nDeno.serve(() => new Response(a))\n`,
    'functions/files/lib/a.ts': `export const a = 'ä€'\n`,
    'functions/files/node_modules/x/index.js': 'x',
    'functions/files/.env': 'SECRET=1',
    'functions/files/lib/.hidden/b.ts': '',
  })
  const binary = Buffer.from([0, 255, 254, 10, 128])
  writeFileSync(join(cwd, 'functions/files/data.bin'), binary)
  await succeed('deploy', 'files')
  assert.equal((await succeed('invoke', 'files')).stdout, 'ä€')

  await succeed('download', 'files', '--path', 'copy')
  assert.deepEqual(below(join(cwd, 'copy')), ['data.bin', 'index.ts', 'lib/a.ts'])
  for (const file of ['data.bin', 'index.ts', 'lib/a.ts'])
    assert.deepEqual(readFileSync(join(cwd, 'copy', file)), readFileSync(join(cwd, 'functions/files', file)))

  writeFileSync(join(cwd, 'functions/files/index.ts'), 'changed here')
  const refused = await functions(['download', 'files'])
  assert.deepEqual(codes(refused), [1, 'file_exists'])
  assert.match(refused.json.error.message, /functions\/files\/index\.ts/)
  assert.equal(readFileSync(join(cwd, 'functions/files/index.ts'), 'utf8'), 'changed here')
  await succeed('download', 'files', '--force')
  assert.match(readFileSync(join(cwd, 'functions/files/index.ts'), 'utf8'), /Deno\.serve/)
})

test('functions download: writes nothing through a symbolic link', async () => {
  const { succeed, functions, cwd } = directory({
    'functions/linked/index.ts': answering('x'),
    'functions/linked/lib/a.ts': 'export {}',
    'elsewhere/keep': '',
  })
  await succeed('deploy', 'linked')
  mkdirSync(join(cwd, 'copy'))
  symlinkSync(join(cwd, 'elsewhere'), join(cwd, 'copy/lib'))
  const refused = await functions(['download', 'linked', '--path', 'copy', '--force'])
  assert.deepEqual(codes(refused), [1, 'file_unwritable'])
  assert.deepEqual(below(join(cwd, 'elsewhere')), ['keep'])
  assert.deepEqual(readdirSync(join(cwd, 'copy')), ['lib'])
})

test('functions download: a path that leaves the target is refused, and nothing is written', async () => {
  let path = ''
  const fake = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({ version: 1, entrypoint: 'index.ts', files: { 'index.ts': 'x', [path]: 'x' } }),
    )
  })
  await new Promise<void>(resolve => fake.listen(0, '127.0.0.1', resolve))
  after(() => fake.close())
  const url = `http://127.0.0.1:${(fake.address() as AddressInfo).port}`
  const { functions, cwd } = directory()
  for (path of ['../out', '/tmp/out', 'a/../../out', 'a//b', './b', 'a\\..\\b', 'C:/out']) {
    const refused = await functions(['download', 'evil', '--path', 'copy'], { env: { PLATFORM_URL: url } })
    assert.deepEqual(codes(refused), [1, 'path_unsafe'], path)
  }
  assert.deepEqual(below(cwd), [])
})

test('functions deploy: a single file is a function', async () => {
  const { succeed } = directory({ 'hook.js': answering('single') })
  assert.equal((await succeed('deploy', 'single', '--path', 'hook.js')).json.data.entrypoint, 'hook.js')
  assert.equal((await succeed('invoke', 'single')).stdout, 'single')
})

test('functions deploy: an import from outside fails with the command that deploys both', async () => {
  const { functions, succeed } = directory({
    'functions/shared/index.ts': `import { text } from '../_shared/text.ts'\nDeno.serve(() => new Response(text))\n`,
    'functions/_shared/text.ts': `export const text = 'from _shared'\n`,
  })
  const refused = await functions(['deploy', 'shared'])
  assert.deepEqual(codes(refused), [1, 'function_code_invalid'])
  const [, advice] = /: plinth functions (.*)$/.exec(refused.json.error.suggestion) ?? []
  assert.equal(advice, 'deploy shared --path functions --entrypoint shared/index.ts')
  await succeed(...advice!.split(' '))
  assert.equal((await succeed('invoke', 'shared')).stdout, 'from _shared')
})

test('functions: invalid files and arguments fail before any request', async () => {
  const { functions, cwd } = directory({
    'functions/ok/index.ts': answering('ok'),
    'functions/other/main.ts': answering('ok'),
    'functions/.empty/x': '',
    'functions/link/index.ts': answering('ok'),
    'functions/large/index.ts': answering('ok'),
    'functions/large/data': 'x'.repeat(10 * 1024 * 1024),
  })
  symlinkSync('/etc', join(cwd, 'functions/link/etc'))
  mkdirSync(join(cwd, 'functions/many'))
  mkdirSync(join(cwd, 'functions/empty'))
  for (let i = 0; i <= 1000; i++) writeFileSync(join(cwd, `functions/many/${i}.ts`), '')
  const proxy = await recordingProxy(platform.url)
  const env = { PLATFORM_URL: proxy.url }
  for (const [line, code, words] of [
    ['deploy nowhere', 'folder_missing', /functions new nowhere/],
    ['deploy ok --path nowhere', 'file_unreadable', /--path/],
    ['deploy link', 'file_unsupported', /functions\/link\/etc is a symbolic link/],
    ['deploy large', 'function_too_large', /10 MB/],
    ['deploy many', 'too_many_files', /1000 files/],
    ['deploy empty', 'directory_empty', /--path/],
    ['deploy other', 'entrypoint_missing', /--entrypoint/],
    ['deploy other --entrypoint index.ts', 'entrypoint_missing', /no file index\.ts/],
    ['deploy ok --path functions/ok/index.ts --entrypoint x.ts', 'usage_invalid_value', /is a file/],
    ['deploy ok --verify-jwt --no-verify-jwt', 'usage_invalid_value', /exclude/],
    ['deploy -- -x', 'usage_invalid_value', /hyphen/],
    ['new ../x', 'usage_invalid_value', /letters, digits/],
    ['delete ok', 'confirmation_missing', /--yes/],
    ['rollback ok latest', 'usage_invalid_value', /number/],
    ['logs ok --limit 1001', 'usage_invalid_value', /1 to 1000/],
    ['logs ok --level fatal', 'usage_invalid_value', /debug, info, log, warn, error/],
    ['invoke ok --method GET --body x', 'usage_invalid_value', /no body/],
    ['invoke ok --header nonsense', 'usage_invalid_value', /a colon/],
    ['invoke ok --path ../rest', 'usage_invalid_value', /"\.\."/],
    ['invoke ok --path /a/%2e%2E/b', 'usage_invalid_value', /"\.\."/],
    ['invoke ok --body @nowhere.json', 'file_unreadable', /nowhere\.json/],
  ] as const) {
    const refused = await functions(['-o', 'json', ...line.split(' ')], { env })
    assert.deepEqual(codes(refused), [1, code], `${line}: ${refused.stdout}`)
    const { message, suggestion } = refused.json.error
    assert.match(`${message} ${suggestion}`, words, line)
  }
  assert.deepEqual(proxy.requests, [])
})

const echo = `
Deno.serve(async request => {
  const { pathname, search } = new URL(request.url)
  if (pathname.endsWith('/bytes')) return new Response(new Uint8Array([0, 255, 10]))
  const status = Number(request.headers.get('x-status') ?? 200)
  const { method, headers } = request
  return Response.json({
    method, path: pathname + search, body: await request.text(), role: headers.get('x-platform-role'),
    type: headers.get('content-type'), a: headers.get('x-a'),
  }, { status, headers: { 'x-answer': '1' } })
})`

test('functions invoke: sends method, path, headers and body, and prints the body as it is', async () => {
  const { succeed, functions } = directory({ 'functions/echo/index.ts': echo, 'in.csv': 'a;b\n' })
  await succeed('deploy', 'echo')
  const plain = await succeed('invoke', 'echo')
  assert.deepEqual(JSON.parse(plain.stdout), {
    method: 'POST',
    path: '/echo',
    body: '',
    role: 'service_role',
    type: null,
    a: null,
  })
  assert.match(plain.stderr, /^HTTP 200 OK in \d+ ms, request id \S+\n$/)

  const args = ['-X', 'PUT', '--path', '/items/1?x=2', '-H', 'X-A: 1', '-H', 'x-a: 2', '--body', '[1]']
  const full = JSON.parse((await succeed('invoke', 'echo', ...args)).stdout)
  assert.deepEqual(
    [full.method, full.path, full.body, full.type, full.a],
    ['PUT', '/echo/items/1?x=2', '[1]', 'application/json', '1, 2'],
  )
  const typeOf = async (body: string, options: RunOptions = {}) => {
    const { stdout } = await functions(['invoke', 'echo', '--body', body], options)
    const { type, body: sent } = JSON.parse(stdout)
    return [type, sent]
  }
  assert.deepEqual(await typeOf('hello'), ['text/plain; charset=utf-8', 'hello'])
  assert.deepEqual(await typeOf('@in.csv'), ['text/csv', 'a;b\n'])
  assert.deepEqual(await typeOf('@-', { input: '{}' }), ['application/json', '{}'])

  const { data } = (await succeed('invoke', 'echo', '--path', 'bytes', '-o', 'json')).json
  assert.deepEqual([data.status, data.body, data.body_base64], [200, null, 'AP8K'])
})

test('functions invoke: ends with 1 for a status of 400 or more, with the body', async () => {
  const { functions, succeed } = directory({ 'functions/failing/index.ts': echo })
  await succeed('deploy', 'failing')
  const refused = await functions(['invoke', 'failing', '--header', 'x-status: 418'])
  assert.deepEqual([refused.code, JSON.parse(refused.stdout).method], [1, 'POST'])
  assert.match(refused.stderr, /^HTTP 418 I'm a Teapot .*\nplinth functions logs failing/)
  const json = await functions(['invoke', 'failing', '-H', 'x-status: 503', '-o', 'json'])
  assert.deepEqual([json.code, json.json.data.status, json.json.data.headers['x-answer']], [1, 503, '1'])
  assert.equal((await functions(['invoke', 'failing', '-H', 'x-status: 302'])).code, 0)
  const absent = await functions(['invoke', 'absent'])
  assert.equal(absent.code, 1)
  assert.match(absent.stderr, /^HTTP 404 .*\nplinth functions list/)
})

test('functions invoke: without admin scope the anon key is sent, or the credential of --header', async () => {
  const { functions, succeed } = directory({ 'functions/keys/index.ts': echo })
  await succeed('deploy', 'keys')
  const env = { PLATFORM_TOKEN: await readToken() }
  const refused = await functions(['invoke', 'keys'], { env })
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /^HTTP 401 .*\n.*--header 'Authorization: Bearer <token>'/)
  const own = ['-H', `authorization: Bearer ${project.service_role_key}`]
  assert.equal(JSON.parse((await functions(['invoke', 'keys', ...own], { env })).stdout).role, 'service_role')
  await succeed('deploy', 'keys', '--no-verify-jwt')
  assert.equal(JSON.parse((await functions(['invoke', 'keys'], { env })).stdout).role, 'anon')
})

const talking = `
let calls = 0
Deno.serve(() => {
  calls++
  console.log('call', calls)
  if (calls === 1) console.error('first\\nsecond line \\x1b[2J')
  return new Response('ok')
})`

test('functions logs: prints what a function has printed and how its calls ended', async () => {
  const { succeed, functions } = directory({ 'functions/talking/index.ts': talking })
  await succeed('deploy', 'talking')
  assert.match((await succeed('logs', 'talking', '-o', 'text')).stderr, /No lines yet/)
  await succeed('invoke', 'talking')
  const lines = await eventually(async () => {
    const { logs } = (await succeed('logs', 'talking')).json.data
    return logs.some((each: any) => each.event === 'end') && logs
  }, 'the end of the call is logged')
  assert.deepEqual(
    lines.filter((each: any) => each.event === 'output').map((each: any) => [each.level, each.message]),
    [
      ['log', 'call 1'],
      ['error', 'first\nsecond line \x1b[2J'],
    ],
  )
  const { stdout } = await succeed('logs', 'talking', '-o', 'text')
  assert.match(stdout, /^\d{4}-\d\d-\d\dT[\d:.]+Z {2}info {3}POST started\n/)
  assert.match(stdout, /Z {2}error {2}first\n {2}second line �\[2J\n/)
  assert.match(stdout, /Z {2}info {3}POST 200 in [\d.]+ ms, with a new worker\n/)
  const errors = (await succeed('logs', 'talking', '--level', 'error')).json.data.logs
  assert.deepEqual(errors.length, 1)
  assert.equal((await succeed('logs', 'talking', '--limit', '1')).json.data.logs.length, 1)
  assert.deepEqual(codes(await functions(['logs', 'absent'])), [1, 'function_not_found'])
})

test('functions logs --follow: prints each new line once, as JSON, and Ctrl-C ends it with 0', async () => {
  const { succeed, cwd } = directory({ 'functions/followed/index.ts': talking })
  await succeed('deploy', 'followed')
  const running = begin(['functions', 'logs', 'followed', '-f'], { cwd, env: environment() })
  after(running.interrupt)
  const messages = () =>
    running
      .stdout()
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line))
      .filter(each => each.level === 'log')
      .map(each => each.message)
  for (const expected of [['call 1'], ['call 1', 'call 2']]) {
    await succeed('invoke', 'followed')
    await eventually(() => messages().length === expected.length, 'the call is printed')
    assert.deepEqual(messages(), expected)
  }
  running.interrupt()
  assert.equal(await running.ended, 0)
})

test('functions rollback: deploys the code of a previous version; an unknown one lists the versions', async () => {
  const { succeed, functions, cwd } = directory({ 'functions/back/index.ts': answering('one') })
  await succeed('deploy', 'back')
  writeFileSync(join(cwd, 'functions/back/index.ts'), answering('two'))
  await succeed('deploy', 'back')
  assert.equal((await succeed('invoke', 'back')).stdout, 'two')
  assert.equal((await succeed('rollback', 'back', '1')).json.data.version, 3)
  assert.equal((await succeed('invoke', 'back')).stdout, 'one')
  const unknown = await functions(['rollback', 'back', '9'])
  assert.deepEqual(codes(unknown), [1, 'function_version_not_found'])
  assert.equal(unknown.json.error.suggestion, 'Choose one of 3, 2, 1.')
})

test('functions delete: deletes a function with --yes', async () => {
  const { succeed, functions } = directory({ 'functions/gone/index.ts': answering('x') })
  await succeed('deploy', 'gone')
  assert.deepEqual(codes(await functions(['delete', 'gone'])), [1, 'confirmation_missing'])
  assert.equal((await succeed('invoke', 'gone')).stdout, 'x')
  await succeed('delete', 'gone', '--yes')
  assert.deepEqual(codes(await functions(['delete', 'gone', '-y'])), [1, 'function_not_found'])
  assert.equal((await functions(['invoke', 'gone'])).code, 1)
})
